"""Counts how often a compiler compiles: what stands before the real one in PATH notes each start with -c.

  starts = compilers.counted("c++")
  build()
  print(starts())

The path of what stands there is the same in each pod, since ninja starts anew what has another command.
"""

import os
import shutil


def counted(*names):
    folder = os.path.abspath("compilers")
    log = folder + "/starts"
    os.makedirs(folder, exist_ok=True)
    open(log, "w", encoding="utf-8").close()
    for name in names:
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nfor word; do [ "$word" != -c ] || echo {name} >>{log}; done\nexec {shutil.which(name)} "$@"\n')
        os.chmod(file.name, 0o755)
    os.environ["PATH"] = folder + ":" + os.environ["PATH"]

    def starts():
        with open(log, encoding="utf-8") as file:
            return len(file.readlines())

    return starts
