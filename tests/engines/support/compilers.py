"""What compilers do, noted by scripts that stand before the real ones in PATH.

  starts = compilers.counted("c++")    # how often one was started with -c
  seconds = compilers.timed("g++")     # seconds of CPU time that it took
  build()
  print(starts(), seconds())

The path of what stands there is the same in each pod, since ninja starts anew what has another command.
"""

import glob
import os
import shutil


def noted(names, log, script):
    """Puts a script for each compiler into PATH, and returns its log; `script` has the names {real}, {name} and {log}."""
    folder = os.path.abspath("compilers")
    log = f"{folder}/{log}"
    os.makedirs(folder, exist_ok=True)
    open(log, "w", encoding="utf-8").close()
    for name in names:
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script.format(real=shutil.which(name), name=name, log=log))
        os.chmod(file.name, 0o755)
    os.environ["PATH"] = folder + ":" + os.environ["PATH"]
    return log


def counted(*names):
    log = noted(names, "starts", 'for word; do [ "$word" != -c ] || echo {name} >>{log}; done\nexec {real} "$@"\n')

    def starts():
        with open(log, encoding="utf-8") as file:
            return len(file.readlines())

    return starts


def timed(*names):
    # The second line that `times` prints is of the shell's children: "0m1.250000s 0m0.040000s". A file for each, as they run at once.
    for path in glob.glob("compilers/times.*"):
        os.remove(path)
    log = noted(names, "times", '{real} "$@"\ncode=$?\ntimes >{log}.$$\nexit $code\n')

    def seconds():
        spent = []
        for path in glob.glob(log + ".*"):
            with open(path, encoding="utf-8") as file:
                spent += file.read().split()[2:]
        parts = [word.rstrip("s").split("m") for word in spent]
        return sum(60 * int(minutes) + float(rest) for minutes, rest in parts)

    return seconds
