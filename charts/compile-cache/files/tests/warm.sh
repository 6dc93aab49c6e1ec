# The earlier pod's cache is here before this one starts.
directory=${COMPILECACHE_PORTABLE_DIR:?this pod was not injected; the CompileCache may not be ready}
cat /compilecache/cache/control/status.json
cat "$directory/kernel"
