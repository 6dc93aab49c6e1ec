#!/usr/bin/env python3
"""Writes where a release comes from, as the predicate of a SLSA provenance (v1): the commit, of which repository ($SOURCE_URI), and who builds
($BUILDER_ID).

  provenance.py --version 0.2.0 --commit HASH --ref refs/tags/v0.2.0 --repository ghcr.io/me/compilecache
"""
import argparse
import json
import os


def predicate(version, commit, ref, repository, source, builder):
    return {
        "buildDefinition": {
            "buildType": "https://compilecache.dev/release/make/v1",
            "externalParameters": {"version": version, "ref": ref, "repository": repository},
            "resolvedDependencies": [{"uri": source, "digest": {"gitCommit": commit}}],
        },
        "runDetails": {"builder": {"id": builder}},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("version", "commit", "ref", "repository"):
        parser.add_argument("--" + name, required=True)
    given = vars(parser.parse_args())
    source = os.environ.get("SOURCE_URI", "git+compile-cache")
    builder = os.environ.get("BUILDER_ID", "https://compilecache.dev/release/make")
    print(json.dumps(predicate(**given, source=source, builder=builder), indent=1))


if __name__ == "__main__":
    main()
