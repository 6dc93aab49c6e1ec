#!/usr/bin/env python3
"""Writes compilecache.yaml, the plugin's manifest for krew (https://krew.sigs.k8s.io): `kubectl krew install --manifest=compilecache.yaml`.

  krew.py OUT --version 0.2.0 --home https://forge/me/it --downloads https://forge/me/it/releases/download/v0.2.0

OUT has the plugin's archives, whose checksums the manifest carries. They are downloaded from below --downloads.
"""
import argparse
import hashlib
import json
import pathlib

DESCRIPTION = """CompileCaches keep what torch.compile, Triton, vLLM, SGLang or JAX compiled in one
pod for the next one. This plugin shows how they do (status), explains why a pod starts
slowly (explain), warms archives before a roll-out (prewarm), reports what was saved
(report), and copies, exports, imports and verifies archives."""
CAVEATS = """kubectl completes its commands if kubectl_complete-compilecache is on the PATH:
  ln -s ~/.krew/store/compilecache/*/kubectl_complete-compilecache ~/.krew/bin/"""


def platform(archive, downloads):
    architecture = archive.name.removesuffix(".tar.gz").rpartition("-")[2]
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    return ["  - selector:", "      matchLabels:", "        os: linux", f"        arch: {architecture}",
            f"    uri: {json.dumps(f'{downloads}/{archive.name}')}", f"    sha256: {checksum}", "    bin: kubectl-compilecache"]


def block(text, indent):
    return "|\n" + "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())


def manifest(asked):
    archives = sorted(pathlib.Path(asked.out).glob(f"kubectl-compilecache-{asked.version}-linux-*.tar.gz"))
    if not archives:
        raise SystemExit(f"krew.py: {asked.out} has no archive of the plugin's version {asked.version}")
    lines = ["apiVersion: krew.googlecontainertools.github.com/v1alpha2", "kind: Plugin", "metadata:", "  name: compilecache", "spec:",
             f"  version: {json.dumps('v' + asked.version)}", f"  homepage: {json.dumps(asked.home)}",
             "  shortDescription: See, warm and move caches of compiled GPU code",
             "  description: " + block(DESCRIPTION, 4).rstrip("\n"), "  caveats: " + block(CAVEATS, 4).rstrip("\n"), "  platforms:"]
    for archive in archives:
        lines += platform(archive, asked.downloads.rstrip("/"))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    for name in ("--version", "--home", "--downloads"):
        parser.add_argument(name, required=True)
    asked = parser.parse_args()
    (pathlib.Path(asked.out) / "compilecache.yaml").write_text(manifest(asked))


main()
