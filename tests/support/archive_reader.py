#!/usr/bin/env python3
"""A reader of archives, written from docs/design/archive-format.md alone: what the document lacks, this lacks.

  archive_reader.py STORE MANIFEST_DIGEST DIRECTORY

Writes the archive's files below DIRECTORY, or says "refused: why" and leaves nothing there. Needs the program zstd.
"""

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys

ARTIFACT_TYPE = "application/vnd.compilecache.archive.v1"
CONFIG_TYPE = "application/vnd.compilecache.archive.config.v1+json+zstd"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+zstd"


class Refused(Exception):
    pass


def require(condition, why):
    if not condition:
        raise Refused(why)


def read_blob(store, digest, size=None):
    require(digest.startswith("sha256:") and len(digest) == 71 and
            all(c in "0123456789abcdef" for c in digest[7:]), f"not a digest: {digest}")
    try:
        with open(f"{store}/blobs/sha256/{digest[7:]}", "rb") as file:
            content = file.read()
    except FileNotFoundError:
        raise Refused(f"a miss: there is no blob {digest}") from None
    require("sha256:" + hashlib.sha256(content).hexdigest() == digest, f"blob {digest} is not what its name says")
    require(size is None or len(content) == size, f"blob {digest} has another size")
    return content


def unzstd(content):
    done = subprocess.run(["zstd", "-dcq"], input=content, capture_output=True, check=False)
    require(done.returncode == 0, f"zstd: {done.stderr.decode()}")
    return done.stdout


def check_path(path):
    raw = path.encode()
    require(0 < len(raw) <= 4096 and not any(b < 0x20 or b == 0x7F for b in raw), f"path {path!r}")
    parts = path.split("/")
    require(len(parts) <= 32 and not any(part in ("", ".", "..") or len(part.encode()) > 255 for part in parts),
            f"path {path!r}")


def check_config(config, layers):
    require(config.get("formatVersion") == 1,
            f"format version {config.get('formatVersion')}, known is 1: use the release that wrote it")
    require(len(config["layers"]) == len(layers), "config and manifest have different layers")
    paths = [file["path"] for file in config["files"]]
    require(paths == sorted(set(paths), key=str.encode), "files are not sorted, or one is there twice")
    known = set(paths)
    for file in config["files"]:
        check_path(file["path"])
        check_path(file.get("from", file["path"]))
        require(0 <= file["layer"] < len(layers), f"{file['path']} is in a layer that is not there")
        folder = os.path.dirname(file["path"])
        while folder:
            require(folder not in known, f"{folder} is a file and a directory")
            folder = os.path.dirname(folder)


def decode_layer(layer):
    """Frame by frame, by the seek table: each alone must give the bytes that the table says."""
    require(len(layer) >= 17, "too short for a seek table")
    count, descriptor, magic = struct.unpack("<IBI", layer[-9:])
    require(magic == 0x8F92EAB1 and descriptor == 0, "no seek table of this format")
    size = count * 8 + 9
    require(len(layer) >= size + 8, "the seek table is larger than the layer")
    table = layer[-size - 8:]
    require(struct.unpack("<II", table[:8]) == (0x184D2A5E, size), "the seek table's header is wrong")
    plain, at = [], 0
    for i in range(count):
        compressed, length = struct.unpack("<II", table[8 + 8 * i:16 + 8 * i])
        require(0 < length <= 16 << 20, "a frame of impossible length")
        frame = unzstd(layer[at:at + compressed])
        require(len(frame) == length, "a frame has another length than the seek table says")
        plain.append(frame)
        at += compressed
    require(at == len(layer) - size - 8, "the frames do not fill the layer")
    return b"".join(plain)


def octal(field):
    return int(field.rstrip(b"\0 ") or b"0", 8)


def text(field):
    return field.split(b"\0")[0].decode()


def tar_files(tar):
    """Path and content of each regular file. Directories and hard links say nothing that the config does not."""
    at, pax = 0, {}
    while True:
        header = tar[at:at + 512]
        require(len(header) == 512, "the tar ends too early")
        at += 512
        if header == bytes(512):
            require(not any(tar[at:]) and len(tar) - at >= 512, "something follows the tar's end")
            return
        require(octal(header[148:156]) == sum(header[:148] + b" " * 8 + header[156:]), "a header's checksum is wrong")
        require(header[257:265] == b"ustar\x0000", "not ustar")
        size, kind = octal(header[124:136]), header[156:157]
        prefix, name = text(header[345:500]), text(header[:100])
        if kind == b"x":
            records = tar[at:at + size]
            while records:
                length = int(records.split(b" ")[0])
                key, value = records[:length].split(b" ", 1)[1].rstrip(b"\n").split(b"=", 1)
                require(key in (b"path", b"linkpath", b"size"), f"PAX record {key}")
                pax[key] = value
                records = records[length:]
        else:
            require(kind in (b"0", b"1", b"5"), f"a tar entry of kind {kind}")
            path = pax.get(b"path", (prefix + "/" + name if prefix else name).encode()).decode()
            size = int(pax.get(b"size", size))
            pax = {}
            if kind == b"0":
                check_path(path)
                yield path, tar[at:at + size]
        at += (size + 511) // 512 * 512


def read_archive(store, digest, into):
    manifest = json.loads(read_blob(store, digest))
    require(manifest.get("artifactType") == ARTIFACT_TYPE,
            f"artifactType is {manifest.get('artifactType')}, known is {ARTIFACT_TYPE}")
    require(manifest["config"]["mediaType"] == CONFIG_TYPE, f"a config of type {manifest['config']['mediaType']}")
    require(len(manifest["layers"]) <= 4, "more than four layers")
    for layer in manifest["layers"]:
        require(layer["mediaType"] == LAYER_TYPE, f"a layer of type {layer['mediaType']}")
    config = json.loads(unzstd(read_blob(store, manifest["config"]["digest"], manifest["config"]["size"])))
    check_config(config, manifest["layers"])

    for number, layer in enumerate(manifest["layers"]):
        wanted = {}
        for file in config["files"]:
            if file["layer"] == number:
                wanted.setdefault(file.get("from", file["path"]), []).append(file)
        plain = decode_layer(read_blob(store, layer["digest"], layer["size"]))
        require(len(plain) == config["layers"][number]["plainBytes"], "a layer has another length than the config says")
        for path, content in tar_files(plain):
            for file in wanted.pop(path, []):
                require(len(content) == file["size"] and hashlib.sha256(content).hexdigest() == file["sha256"],
                        f"{file['path']} is not what the config says")
                target = os.path.join(into, file["path"])
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "xb") as out:
                    out.write(content)
                os.chmod(target, 0o777 if file.get("executable") else 0o666)
                if "mtime" in file:
                    os.utime(target, ns=(10**9, int(file["mtime"])))
        require(not wanted, f"layer {number} lacks {list(wanted)[:3]}")


def main():
    store, digest, into = sys.argv[1:]
    os.makedirs(into, exist_ok=True)
    try:
        read_archive(store, digest, into)
    except (Refused, ValueError, KeyError, TypeError) as why:
        for name in os.listdir(into):
            shutil.rmtree(os.path.join(into, name))
        print(f"refused: {why}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
