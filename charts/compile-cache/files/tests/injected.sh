# By the annotation compilecache.dev/mode: ForceCold, which needs no store.
echo "TORCHINDUCTOR_FORCE_DISABLE_CACHES=${TORCHINDUCTOR_FORCE_DISABLE_CACHES:?this pod was not injected; does the webhook answer?}"
