#!/usr/bin/env python3
"""Writes what the image consists of, for all its architectures, as SPDX 2.3 (JSON): our programs, Debian's packages that files in
the image are from, and those whose headers and archives are compiled into the programs.

  sbom.py LAYOUT --version 0.2.0 --commit HASH --epoch SECONDS --digest sha256:...
"""
import argparse
import datetime
import json
import re

from oci_layout import Layout

STATUS = "var/lib/dpkg/status.d/"  # image/assemble writes it: what dpkg knows of each package
BUILT_FROM = "usr/share/doc/compilecache/built-from.txt"  # image/install_packages writes it: "package version architecture"


def installed(image):
    """Debian's packages that something in the image is from, as (name, version, architecture)."""
    for path, status in image.files.items():
        if path.startswith(STATUS):
            fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", status.decode(), re.M))
            yield fields["Package"], fields["Version"], fields["Architecture"]


def built_from(image):
    for line in image.files[BUILT_FROM].decode().splitlines():
        name, version, architecture = line.split()
        yield name.split(":")[0], version, architecture


def debian_package(name, version, architecture):
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{name}-{version}-{architecture}"),
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{name}@{version}?arch={architecture}&distro=debian-12",
            }
        ],
    }


def document(version, commit, epoch, digest, inside, compiled):
    ours = {
        "SPDXID": "SPDXRef-compilecache",
        "name": "compilecache",
        "versionInfo": version,
        "supplier": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "sourceInfo": f"commit {commit}",
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest.removeprefix("sha256:")}],
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "CONTAINER",
    }
    packages = {package["SPDXID"]: package for package in [*inside, *compiled]}
    relate = lambda kind, package: {
        "spdxElementId": ours["SPDXID"],
        "relationshipType": kind,
        "relatedSpdxElement": package["SPDXID"],
    }
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"compilecache-{version}",
        "documentNamespace": f"https://compilecache.dev/spdx/{version}/{digest.removeprefix('sha256:')}",
        "creationInfo": {
            "created": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: release/sbom.py"],
        },
        "packages": [ours, *packages.values()],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": ours["SPDXID"]},
            *[relate("CONTAINS", package) for package in inside],
            *[relate("GENERATED_FROM", package) for package in compiled],
        ],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layout")
    parser.add_argument("--version", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--digest", required=True)
    given = parser.parse_args()
    images = Layout(given.layout).images.values()
    inside = [debian_package(*one) for one in sorted({one for image in images for one in installed(image)})]
    compiled = [debian_package(*one) for one in sorted({one for image in images for one in built_from(image)})]
    print(json.dumps(document(given.version, given.commit, given.epoch, given.digest, inside, compiled), indent=1))


if __name__ == "__main__":
    main()
