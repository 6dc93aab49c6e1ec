#!/usr/bin/env python3
"""What an OCI layout holds that has one image for one or more architectures.

  oci_layout.py digest LAYOUT                    the digest of the image: of its index, which names one manifest for each architecture
  oci_layout.py unpack LAYOUT ARCHITECTURE TO    writes the files of the image for that architecture into the folder TO
"""
import io
import json
import pathlib
import sys
import tarfile

INDEX = "application/vnd.oci.image.index.v1+json"


class Layout:
    """images: by architecture."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        found = json.loads((self.folder / "index.json").read_text())["manifests"]
        if len(found) != 1 or found[0]["mediaType"] != INDEX:
            raise SystemExit(f"{folder} holds something else than one image index")
        self.digest = found[0]["digest"]
        manifests = json.loads(self.blob(self.digest))["manifests"]
        self.images = {one["platform"]["architecture"]: Image(self, one["digest"]) for one in manifests}

    def blob(self, digest):
        return (self.folder / "blobs" / digest.replace(":", "/")).read_bytes()


class Image:
    """files: the bytes of each file by its path, without a slash before it."""

    def __init__(self, layout, digest):
        layers = json.loads(layout.blob(digest))["layers"]
        self.layers = [layout.blob(layer["digest"]) for layer in layers]
        self.files = {}
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                for member in tar:
                    if member.isfile():
                        self.files[member.name.removeprefix("./")] = tar.extractfile(member).read()

    def unpack(self, folder):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                # Links in an image are absolute, which newer Pythons refuse by default.
                tar.extraction_filter = lambda member, path: member
                tar.extractall(folder)


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "digest":
        print(Layout(arguments[1]).digest)
    elif len(arguments) == 4 and arguments[0] == "unpack":
        Layout(arguments[1]).images[arguments[2]].unpack(arguments[3])
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
