#!/usr/bin/env python3
"""Checks a plugin's manifest for krew, as krew does before it installs one, and that its archives are what it says.

  krew_manifest.py OUT/compilecache.yaml

The rules are those of krew's developer guide (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest) and of its internal/index/validation
(v0.4). OUT has the archives: each platform's checksum is that of the file, and `bin` is a program in it.
"""
import hashlib
import pathlib
import re
import stat
import sys
import tarfile

import yaml

API = "krew.googlecontainertools.github.com/v1alpha2"
FIELDS = {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
PLATFORM_FIELDS = {"selector", "uri", "sha256", "bin", "files"}
# "v" and a semantic version (semver.org).
VERSION = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


def selector_faults(selector):
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    if not labels and not expressions:
        yield "a platform's selector is empty"
    keys = [*(labels or {}), *(one.get("key") for one in expressions or [])]
    for key in keys:
        if key not in ("os", "arch"):
            yield f"a selector's key is {key}; krew knows os and arch"


def archive_faults(archive, platform):
    if hashlib.sha256(archive.read_bytes()).hexdigest() != platform["sha256"]:
        yield f"{archive.name} has another checksum"
    with tarfile.open(archive) as tar:
        members = {one.name.removeprefix("./"): one for one in tar.getmembers()}
    program = members.get(platform["bin"])
    if program is None or not program.isreg() or not program.mode & stat.S_IXUSR:
        yield f"{archive.name} has no program {platform['bin']}"
    if any(name.startswith("/") or ".." in name.split("/") for name in members):
        yield f"{archive.name} has a file outside of its folder"


def platform_faults(folder, platform):
    yield from (f"a platform has the unknown field {name}" for name in set(platform) - PLATFORM_FIELDS)
    for name in ("uri", "sha256", "bin"):
        if not platform.get(name):
            yield f"a platform has no {name}"
            return
    if not platform["uri"].startswith("https://"):
        yield f"{platform['uri']} is not https"
    if not re.fullmatch("[a-f0-9]{64}", str(platform["sha256"])):
        yield f"{platform['sha256']} is no SHA-256 in lower case"
    if "files" in platform and not (platform["files"] and all(one.get("from") and one.get("to") for one in platform["files"])):
        yield "files of a platform need from and to"
    yield from selector_faults(platform.get("selector") or {})
    archive = folder / platform["uri"].rpartition("/")[2]
    if archive.is_file():
        yield from archive_faults(archive, platform)
    else:
        yield f"the release has no {archive.name}"


def faults(path):
    manifest = yaml.safe_load(path.read_text())
    spec = manifest.get("spec", {})
    if manifest.get("apiVersion") != API or manifest.get("kind") != "Plugin":
        yield f"it is not a Plugin of {API}"
    name = manifest.get("metadata", {}).get("name", "")
    if name != path.stem or not re.fullmatch(r"[\w-]+", name):
        yield f"the plugin is named {name!r}, the file {path.name}"
    yield from (f"the unknown field {one}" for one in set(spec) - FIELDS)
    if not VERSION.fullmatch(str(spec.get("version", ""))):
        yield f"the version is {spec.get('version')!r}"
    short = spec.get("shortDescription", "")
    if not short or "\n" in short or len(short) > 50:
        yield "shortDescription is a line of 50 characters at most"
    if not spec.get("platforms"):
        yield "there is no platform"
    for platform in spec.get("platforms") or []:
        yield from platform_faults(path.parent, platform)
    chosen = [tuple(sorted(one["selector"].get("matchLabels", {}).items())) for one in spec.get("platforms") or [] if one.get("selector")]
    if len(chosen) != len(set(chosen)):
        yield "two platforms have the same selector"


found = list(faults(pathlib.Path(sys.argv[1])))
for fault in found:
    print(f"{sys.argv[1]}: {fault}", file=sys.stderr)
sys.exit(1 if found else 0)
