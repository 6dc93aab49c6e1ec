# Asks for a save of what was compiled so far, and prints the result. A result of "SUCCESS" is on the volume.
import pathlib, time
save = pathlib.Path("/compilecache/cache/control/save")
if save.parent.is_dir(): save.touch()  # no such folder: the pod was not injected
give_up = time.monotonic() + 60
while save.exists() and time.monotonic() < give_up: time.sleep(0.1)
print("no answer" if save.exists() else save.with_suffix(".result").read_text() if save.parent.is_dir() else "no cache")
