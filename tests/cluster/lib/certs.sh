# A certificate authority for one cluster, certificates from it, and kubeconfig files. Sourced.
# shellcheck shell=bash

# make_ca RUN: the authority, and the key that signs service account tokens.
make_ca() {
  local pki=$1/pki
  mkdir -p "$pki"
  chmod 700 "$pki"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=compilecache-test-ca' \
    -addext 'basicConstraints=critical,CA:true' -addext 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature' \
    -keyout "$pki/ca.key" -out "$pki/ca.crt" 2>/dev/null
  openssl genpkey -algorithm ec -pkeyopt ec_paramgen_curve:P-256 -out "$pki/service-account.key" 2>/dev/null
  openssl pkey -in "$pki/service-account.key" -pubout -out "$pki/service-account.pub"
}

# make_cert RUN FILE SUBJECT [ALT_NAMES]: a certificate for client and server use.
make_cert() {
  local pki=$1/pki names=()
  [ -z "${4-}" ] || names=(-addext "subjectAltName=$4")
  openssl req -x509 -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -days 3650 -subj "$3" -addext 'basicConstraints=critical,CA:false' \
    -addext 'extendedKeyUsage=clientAuth,serverAuth' "${names[@]}" \
    -keyout "$pki/$2.key" -out "$pki/$2.crt" 2>/dev/null
}

# write_kubeconfig RUN SERVER CERT OUT: with everything inside, so that the file can be copied.
write_kubeconfig() {
  local pki=$1/pki
  (umask 077 && cat >"$4") <<EOF
apiVersion: v1
kind: Config
clusters:
- name: ${1##*/}
  cluster:
    server: $2
    certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
users:
- name: $3
  user:
    client-certificate-data: $(base64 -w0 "$pki/$3.crt")
    client-key-data: $(base64 -w0 "$pki/$3.key")
contexts:
- name: ${1##*/}
  context: {cluster: ${1##*/}, user: $3}
current-context: ${1##*/}
EOF
}
