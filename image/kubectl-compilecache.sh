#!/bin/sh
# Starts kubectl-compilecache with the libraries that lie beside it, so that none of this machine's are needed.
parts=$(dirname "$(readlink -f "$0")")/kubectl-compilecache.d
# These look for certificate authorities where Debian has them.
if [ -z "$SSL_CERT_FILE$SSL_CERT_DIR" ] && [ ! -e /usr/lib/ssl/certs ]; then
  for file in /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem /etc/ssl/certs/ca-certificates.crt; do
    if [ -r "$file" ]; then
      export SSL_CERT_FILE="$file"
      break
    fi
  done
fi
exec "$parts/loader" --library-path "$parts" --argv0 "$0" "$parts/kubectl-compilecache" "$@"
