#!/usr/bin/env bash
# workflows_test.sh TREE: actionlint accepts the workflows. Each step is a pinned action or calls scripts of this tree, which exist and take the
# given arguments.
set -euo pipefail

tree=$1
mapfile -t workflows < <(find "$tree/.github/workflows" -name '*.yml')
[ ${#workflows[@]} -gt 0 ] || { echo "FAILED: there is no workflow" >&2; exit 1; }
"$("$tree/tests/cluster/cluster" actionlint)" -no-color -shellcheck= -pyflakes= "${workflows[@]}"
python3 - "$tree" "${workflows[@]}" <<'PYTHON'
import os, re, sys, yaml

tree, *workflows = sys.argv[1:]
# Before the tree is there.
PACKAGES = "apt-get update && apt-get install -y --no-install-recommends ca-certificates git"
wrong = []


def check_run(command, name):
    if command == PACKAGES:
        return
    script, *words = command.split()
    if "\n" in command or not os.access(os.path.join(tree, script), os.X_OK):
        wrong.append(f"{name}: `{command}` is not one call of a script of this tree")
        return
    text = open(os.path.join(tree, script)).read()
    for word in words:
        if word.startswith("--") and word not in text:
            wrong.append(f"{name}: {script} does not know {word}")


def check_uses(action, name):
    if not re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", action):
        wrong.append(f"{name}: {action} is not pinned by its commit")


for path in workflows:
    name = os.path.basename(path)
    for job in yaml.safe_load(open(path))["jobs"].values():
        for step in job["steps"]:
            check_run(step["run"].strip(), name) if "run" in step else check_uses(step["uses"], name)
parts = yaml.safe_load(open(os.path.join(tree, ".github/workflows/test.yml")))["jobs"]["test"]["strategy"]["matrix"]["part"]
known = open(os.path.join(tree, "tests/run.sh")).read()
wrong += [f"test.yml: tests/run.sh has no part {part}" for part in parts if not re.search(rf"wants {part}\b|= {part} \]", known)]
for path in (".github/dependabot.yml", *(f".github/ISSUE_TEMPLATE/{name}" for name in os.listdir(os.path.join(tree, ".github/ISSUE_TEMPLATE")))):
    yaml.safe_load(open(os.path.join(tree, path)))
print(*wrong, sep="\n")
sys.exit(bool(wrong))
PYTHON
