#!/usr/bin/env python3
"""What an OCI layout with one image holds.

  oci_layout.py digest LAYOUT       the digest of the image's manifest
  oci_layout.py file LAYOUT PATH    the bytes of a file of the image
"""
import io
import json
import pathlib
import sys
import tarfile


class Layout:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        manifests = json.loads((self.folder / "index.json").read_text())["manifests"]
        if len(manifests) != 1:
            raise SystemExit(f"{folder} holds {len(manifests)} images, not one")
        self.digest = manifests[0]["digest"]
        self.manifest = json.loads(self.blob(self.digest))

    def blob(self, digest):
        return (self.folder / "blobs" / digest.replace(":", "/")).read_bytes()

    def file(self, path):
        """Of the uppermost layer that has it."""
        for layer in reversed(self.manifest["layers"]):
            with tarfile.open(fileobj=io.BytesIO(self.blob(layer["digest"]))) as tar:
                for member in tar:
                    if member.name.removeprefix("./") == path and member.isfile():
                        return tar.extractfile(member).read()
        raise SystemExit(f"the image in {self.folder} has no file {path}")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "digest":
        print(Layout(arguments[1]).digest)
    elif len(arguments) == 3 and arguments[0] == "file":
        sys.stdout.buffer.write(Layout(arguments[1]).file(arguments[2]))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
