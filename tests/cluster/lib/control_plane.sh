# Starts etcd and the API server, and for a whole cluster the controller manager, the scheduler and DNS.
# Sourced. shellcheck shell=bash

# start_api RUN ADDRESS API_PORT ETCD_PORT SERVICES EXTRA_FLAGS...: until it is ready; writes RUN/kubeconfig.
#   ADDRESS   where the API server listens, and what its certificate is for
#   SERVICES  the first three bytes of the services' addresses, e.g. 10.234.1
start_api() {
  local run=$1 address=$2 port=$3 etcd_port=$4 services=$5 name
  shift 5
  make_ca "$run"
  make_cert "$run" apiserver /CN=kube-apiserver "IP:$address,IP:127.0.0.1,IP:$services.1,DNS:localhost,$(
    )DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  make_cert "$run" kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
  make_cert "$run" admin /O=system:masters/CN=admin
  write_kubeconfig "$run" "https://$address:$port" admin "$run/kubeconfig"

  start "$run" etcd "$(go_program etcd)" --data-dir "$run/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls "http://127.0.0.1:$((etcd_port + 1))"
  start "$run" kube-apiserver "$(go_program kube-apiserver)" --etcd-servers "http://127.0.0.1:$etcd_port" \
    --bind-address "$address" --secure-port "$port" --advertise-address "$address" \
    --cert-dir "$run/pki" --tls-cert-file "$run/pki/apiserver.crt" --tls-private-key-file "$run/pki/apiserver.key" \
    --client-ca-file "$run/pki/ca.crt" --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --service-account-key-file "$run/pki/service-account.pub" \
    --service-account-signing-key-file "$run/pki/service-account.key" \
    --service-cluster-ip-range "$services.0/24" --allow-privileged --profiling=false \
    --kubelet-client-certificate "$run/pki/kubelet-client.crt" --kubelet-client-key "$run/pki/kubelet-client.key" \
    --kubelet-preferred-address-types InternalIP \
    --audit-policy-file "$CLUSTER_HOME/audit-policy.yaml" --audit-log-path "$run/logs/audit.log" \
    --audit-log-mode batch --audit-log-maxsize 100 --audit-log-maxbackup 2 "$@"
  wait_for 240 "the API server" "$run" kube-apiserver kubectl_in "$run" get --raw /readyz
}

kubectl_in() {
  local run=$1
  shift
  "$(go_program kubectl)" --kubeconfig "$run/kubeconfig" "$@"
}

# start_controllers RUN SERVER
start_controllers() {
  local run=$1 server=$2 name
  for name in kube-controller-manager kube-scheduler; do
    make_cert "$run" "$name" "/CN=system:$name"
    write_kubeconfig "$run" "$server" "$name" "$run/pki/$name.kubeconfig"
  done
  start "$run" kube-controller-manager "$(go_program kube-controller-manager)" \
    --kubeconfig "$run/pki/kube-controller-manager.kubeconfig" --leader-elect=false --bind-address 127.0.0.1 \
    --use-service-account-credentials --root-ca-file "$run/pki/ca.crt" --cert-dir "$run/pki" \
    --service-account-private-key-file "$run/pki/service-account.key" \
    --cluster-signing-cert-file "$run/pki/ca.crt" --cluster-signing-key-file "$run/pki/ca.key" \
    --flex-volume-plugin-dir "$run/flex" --pvclaimbinder-sync-period 2s
  start "$run" kube-scheduler "$(go_program kube-scheduler)" --leader-elect=false --bind-address 127.0.0.1 \
    --kubeconfig "$run/pki/kube-scheduler.kubeconfig" --cert-dir "$run/pki"
}

# start_dns RUN SERVER ADDRESS SERVICES: CoreDNS as a process on the node, behind the usual Service kube-dns.
start_dns() {
  local run=$1 server=$2 address=$3 services=$4
  make_cert "$run" coredns /CN=system:coredns
  write_kubeconfig "$run" "$server" coredns "$run/pki/coredns.kubeconfig"
  cat >"$run/Corefile" <<EOF
.:53 {
  bind $address
  errors
  health 127.0.0.1:8080
  ready 127.0.0.1:8181
  cache 5
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $run/pki/coredns.kubeconfig
    pods insecure
    ttl 5
  }
}
EOF
  sed -e "s/@ADDRESS@/$address/; s/@DNS@/$services.10/" "$CLUSTER_HOME/addons.yaml" |
    kubectl_in "$run" apply -f - >/dev/null
  start "$run" coredns "$(go_program coredns)" -conf "$run/Corefile"
}
