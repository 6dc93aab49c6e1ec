"""Virtual environments with the packages of one release of an engine, made once and kept.

Some wheels pin builds of an index of their own (torch==2.13.0+cpu). PyPI has the same version, but for GPUs, with 4 GB of
NVIDIA's libraries: what only a GPU needs is left out, and the libraries that torch is linked to are stood in for by empty ones.

  tests/engines/environment.py NAME RELEASE     makes that environment, and prints its folder
"""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

CACHE = os.environ.get("COMPILECACHE_CACHE") or os.path.expanduser("~/.cache/compilecache")
LONGEST_INSTALL = 1800
REQUIREMENTS = """
import importlib.metadata, sys
from pip._vendor.packaging.requirements import Requirement
for line in importlib.metadata.requires(sys.argv[1]) or []:
    one = Requirement(line)
    if not one.marker or one.marker.evaluate({"extra": ""}):
        print(one.name + (f"[{','.join(one.extras)}]" if one.extras else "") + str(one.specifier))
"""


class Missing(Exception):
    """PyPI does not give the packages."""


class Environment:
    """What engine.json says of one release: its packages, of which some stand alone (their pins of local builds are not to be
    had), and what of all that is left out."""

    def __init__(self, name, release, told):
        self.packages = told["releases"][release]
        self.alone, self.left_out = told.get("alone", []), told.get("leftOut", "")
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        digest = hashlib.sha256(json.dumps([version, self.packages, self.alone, self.left_out]).encode()).hexdigest()[:12]
        self.folder = f"{CACHE}/engines/{name}-{release}-{digest}"
        self.python = self.folder + "/bin/python"

    def made(self):
        """The interpreter; Missing where it cannot be made."""
        if not os.path.exists(self.folder + "/made"):
            shutil.rmtree(self.folder, ignore_errors=True)
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            subprocess.run([sys.executable, "-m", "venv", self.folder], check=True)
            self.install()
            open(self.folder + "/made", "w", encoding="utf-8").close()
        return self.python

    def install(self):
        alone = [package for package in self.packages if package.split("==")[0] in self.alone]
        wanted = [package for package in self.packages if package not in alone]
        if alone:
            self.pip("--no-deps", *alone)
            wanted += [line for package in alone for line in self.requirements(package.split("==")[0])]
        self.pip("--no-deps", *self.resolved(wanted))
        stand_in(self.folder)

    def pip(self, *arguments):
        install = [self.folder + "/bin/pip", "install", "-q", "--no-cache-dir", "--retries", "2", "--timeout", "60", *arguments]
        if subprocess.run(install, check=False, timeout=LONGEST_INSTALL).returncode != 0:
            raise Missing(" ".join(arguments))

    def requirements(self, package):
        asked = subprocess.run([self.python, "-c", REQUIREMENTS, package], capture_output=True, text=True, check=True).stdout
        return [re.sub(r"\+\w+", "", line) for line in asked.splitlines()]

    def resolved(self, wanted):
        """All packages that these need, at the versions that fit together, but for what is left out."""
        left_out = re.compile(self.left_out or "$", re.IGNORECASE)
        with tempfile.NamedTemporaryFile() as report:
            self.pip("--dry-run", "--report", report.name, *[one for one in wanted if not left_out.fullmatch(re.split(r"[^\w-]", one)[0])])
            found = [one["metadata"] for one in json.load(report)["install"]]
        return [f"{one['name']}=={one['version']}" for one in found if not left_out.fullmatch(one["name"])]


def stand_in(folder):
    """Libraries of functions that do nothing, for those of NVIDIA that torch's are linked to and that are not here. The linker
    asks for their names; nothing calls them without a GPU."""
    there = {os.path.basename(path) for path in glob.glob(folder + "/lib/python*/site-packages/**/*.so*", recursive=True)}
    missing = {}
    for library in glob.glob(folder + "/lib/python*/site-packages/torch/lib/*.so"):
        for name, symbols in wanted_of(library).items():
            if name not in there:
                missing.setdefault(f"{os.path.dirname(library)}/{name}", set()).update(symbols)
    for path, symbols in missing.items():
        make_library(path, symbols)


def make_library(path, symbols):
    """Each symbol, a pair of name and version ("": none), is a function that does nothing."""
    versions = {version: "".join(f"{name};" for name, of in sorted(symbols) if of == version) for _, version in symbols if version}
    source = "".join(f"void {name}(void) {{}}\n" for name, _ in sorted(symbols))
    build = ["cc", "-w", "-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{os.path.basename(path)}", "-o", path, "-x", "c", "-"]
    with tempfile.NamedTemporaryFile("w") as script:
        script.write("".join(f"{version} {{ global: {names} }};\n" for version, names in versions.items()))
        script.flush()
        build += [f"-Wl,--version-script,{script.name}"] if versions else []
        subprocess.run(build, input=source, text=True, check=True)


def wanted_of(library):
    """The functions, with their versions, that the library wants of each one of NVIDIA's."""
    told = subprocess.run(["readelf", "-W", "-d", "-V", "--dyn-syms", library], capture_output=True, text=True, check=True).stdout
    wanted = {name: set() for name in re.findall(r"NEEDED.*\[(lib(?:cu|nv|nccl)[^]]*)\]", told)}
    file_of, versioned, file = {}, set(), None
    for line in told.splitlines():
        if found := re.search(r"File: (\S+)", line):
            file = found[1]
        elif found := re.search(r"Name: (\S+)  Flags", line):
            file_of[found[1]] = file
            versioned.add(file)
    for symbol, version in re.findall(r" UND (\w+)(?:@(\S+))?", told):
        files = [file_of.get(version)] if version else [name for name in wanted if name not in versioned]
        for name in files:
            if name in wanted and (version or re.match("cu|nv|nccl", symbol)):
                wanted[name].add((symbol, version))
    return wanted


def main(name, release):
    with open(f"{os.path.dirname(os.path.abspath(__file__))}/{name}/engine.json", encoding="utf-8") as file:
        environment = Environment(name, release, json.load(file))
    try:
        environment.made()
    except Missing as missing:
        sys.exit(f"PyPI does not give what {name} {release} needs: {missing}")
    print(environment.folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
