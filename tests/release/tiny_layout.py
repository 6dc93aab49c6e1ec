#!/usr/bin/env python3
"""Writes an OCI layout with one image for two architectures, of one small file each: an image in all but its size.

  tiny_layout.py LAYOUT NAME
"""
import hashlib
import io
import json
import pathlib
import sys
import tarfile

KIND = "application/vnd.oci.image"


def add(folder, content):
    digest = hashlib.sha256(content).hexdigest()
    (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    (folder / "blobs/sha256" / digest).write_bytes(content)
    return {"digest": "sha256:" + digest, "size": len(content)}


def layer_of(text):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("architecture")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    return packed.getvalue()


def manifest_of(folder, architecture):
    layer = add(folder, layer_of(architecture.encode()))
    config = {"architecture": architecture, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": KIND + ".manifest.v1+json",
        "config": {"mediaType": KIND + ".config.v1+json", **add(folder, json.dumps(config).encode())},
        "layers": [{"mediaType": KIND + ".layer.v1.tar", **layer}],
    }
    described = {"mediaType": manifest["mediaType"], **add(folder, json.dumps(manifest).encode())}
    return {**described, "platform": {"architecture": architecture, "os": "linux"}}


def main(folder, name):
    folder = pathlib.Path(folder)
    kind = KIND + ".index.v1+json"
    index = {"schemaVersion": 2, "mediaType": kind, "manifests": [manifest_of(folder, one) for one in ("amd64", "arm64")]}
    described = {"mediaType": kind, **add(folder, json.dumps(index).encode()), "annotations": {"org.opencontainers.image.ref.name": name}}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


main(*sys.argv[1:])
