# Keeps something, asks for a save and waits for the result.
directory=${COMPILECACHE_PORTABLE_DIR:?this pod was not injected; the CompileCache may not have been ready}
control=/compilecache/cache/control
echo "compiled" >"$directory/kernel"
tries=60
while [ $tries -gt 0 ]; do
  touch "$control/save"
  while [ -e "$control/save" ] && [ $((tries -= 1)) -gt 0 ]; do sleep 1; done
  if grep -Eq 'SUCCESS|SKIPPED' "$control/save.result"; then
    cat "$control/save.result"
    exit 0
  fi
  tries=$((tries - 1))
  sleep 1
done
echo "nothing was saved:" >&2
cat "$control/save.result" >&2
exit 1
