#!/usr/bin/env python3
"""Real controllers: an object with our annotation and the same one without go through the same steps.

  tests/controllers/run.py [NAME...] [--page docs/reference/controllers.md]

On the cluster of $KUBECONFIG, which has the operator and the controllers; tests/run.sh controllers starts one. Fails where a controller
does with the annotated object what it does not with the other. Without a name: all.
"""

import argparse
import json
import os
import re
import sys
import traceback

sys.dont_write_bytecode = True  # nothing is left beside the sources
import argo_rollouts
import jobset
import kserve
import kserve_llm
import kuberay
import kueue
import trainer
from questions import Pair
from world import World, Wrong

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONTROLLERS = {"kueue": kueue, "jobset": jobset, "argo-rollouts": argo_rollouts, "kuberay": kuberay, "kserve": kserve,
               "kserve-llm": kserve_llm, "trainer": trainer}


def release(name):
    with open(f"{PROJECT}/tests/cluster/controllers/{name}/controller.json", encoding="utf-8") as file:
        return json.load(file)["version"]


def ask(name):
    """What was seen, in words, and what of it is wrong."""
    controller, passed, wrong, more = CONTROLLERS[name].Controller(), [], [], ""
    with World(name) as place:
        if hasattr(controller, "before"):
            controller.before(place)
        try:
            place.cache("warm", {})
            pair = Pair(place, controller)
            for step, question in Pair.ALL:
                question(pair)
                passed.append(step)
                print(f"{name}: {step}: as without the annotation: {pair.seen.get(step, '')}", flush=True)
                if step == "rolled out" and hasattr(controller, "more"):
                    more = controller.more(place)
                    print(f"{name}: {more}", flush=True)
        except Wrong as error:
            wrong.append(str(error))
        except Exception:  # pylint: disable=broad-except  # the others are asked all the same
            wrong.append(traceback.format_exc())
        finally:
            if hasattr(controller, "after"):
                controller.after(place)
    return controller, passed, more, wrong


def row(name, controller, passed, more):
    return f"| {controller.name} | {release(name)} | {', '.join(passed)} | as without the annotation{'; ' + more if more else ''} | {controller.setting or 'nothing'} | {controller.annotation} |"


def write_row(page, line):
    """Puts the row into the page's table, in place of the controller's of that release."""
    with open(page, encoding="utf-8") as file:
        lines = file.read().splitlines()
    key = line.split("|")[1:3]
    lines = [one for one in lines if one.split("|")[1:3] != key]
    end = max(index for index, one in enumerate(lines) if re.match(r"\|(-+\|)+$|\| .* \| v\d", one))
    lines.insert(end + 1, line)
    with open(page, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(CONTROLLERS))
    parser.add_argument("--page", help="whose table gets the rows of those that are as they must be")
    options = parser.parse_args()
    for name in options.names:
        if name not in CONTROLLERS:
            parser.error(f"there is no controller '{name}'; there are {', '.join(CONTROLLERS)}")
    names, failed = options.names or list(CONTROLLERS), 0
    for name in names:
        controller, passed, more, wrong = ask(name)
        for one in wrong:
            print(f"FAILED: {name}: {one}", flush=True)
        failed += bool(wrong)
        if options.page and not wrong:
            write_row(options.page, row(name, controller, passed, more))
    print(f"{failed} of {len(names)} controllers do what they would not have done without us, or could not be asked")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
