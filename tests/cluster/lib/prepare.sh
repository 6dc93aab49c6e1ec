# Gets what a cluster needs, once: Debian packages, a Go toolchain, the Kubernetes programs. Sourced.
# shellcheck shell=bash

CONTROL_PLANE_PACKAGES=(ca-certificates gcc iproute2 jq libc6-dev openssl procps)
NODE_PACKAGES=(binutils buildah conntrack containerd containernetworking-plugins debootstrap ethtool iptables
  kmod mount runc skopeo tar util-linux zstd)

# installed_packages NAME...: those of them that are; dpkg-query fails when it knows one of the names not at all.
installed_packages() {
  { dpkg-query -Wf '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true; } | awk '$2 == "installed" { print $1 }'
}

# install_packages NAME...: installs those that are missing, and does not touch apt when none is.
install_packages() {
  local missing apt_lock
  mapfile -t missing < <(comm -13 <(installed_packages "$@" | sort) <(printf '%s\n' "$@" | sort))
  [ ${#missing[@]} -gt 0 ] || return 0
  [ -z "$ONLY_LOOK" ] || exit 64
  is_root || die "these Debian packages are missing; install them as root: apt-get install ${missing[*]}"
  log "installing Debian packages: ${missing[*]}"
  exec {apt_lock}>"/var/lock/compilecache-apt"
  flock "$apt_lock"
  DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2
  exec {apt_lock}>&-
}

# The Debian mirror that this machine's apt uses.
debian_mirror() {
  local mirror
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $2 == "main" && $4 !~ /-(security|updates|backports)/ { print $3; exit }')
  [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "main" && $2 !~ /security/ { print $2; exit }')
  [ -n "$mirror" ] || die "apt on this machine knows no Debian mirror with the component main; see apt-get indextargets"
  printf '%s\n' "${mirror%/}"
}

# go_is_usable PROGRAM
go_is_usable() {
  local version
  version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  printf '%s\n%s\n' "$GO_OLDEST" "${version#go}" | sort -CV
}

# The Go to build with: one that is installed, else Debian's backport, unpacked into the cache.
find_go() {
  local go
  for go in "$(command -v go || true)" /usr/local/go/bin/go /usr/lib/go-*/bin/go; do
    if [ -n "$go" ] && [ -x "$go" ] && go_is_usable "$go"; then
      printf '%s\n' "$go"
      return
    fi
  done
  go=$(make_item go "$(hash_of "$GO_BACKPORT")" unpack_go)
  printf '%s/go/lib/go-%s/bin/go\n' "$go" "$GO_BACKPORT"
}

# Reads the backports' package list with settings of its own: the machine's apt sources stay as they are.
unpack_go() {
  local into=$1 apt=$1/apt options package
  log "no Go $GO_OLDEST or newer here: fetching golang-$GO_BACKPORT of bookworm-backports (about 1 minute)"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$into/root"
  printf 'deb %s bookworm-backports main\n' "$(debian_mirror)" >"$apt/sources.list"
  options=(-qq -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache::archives=$apt/archives" -o APT::Sandbox::User=root
    -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=")
  apt-get "${options[@]}" update >&2
  (cd "$apt" && apt-get "${options[@]}" download "golang-$GO_BACKPORT-go" "golang-$GO_BACKPORT-src" >&2)
  for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$into/root"; done
  rm -rf "$apt"
  # The packages' folders point at each other with links relative to /usr: kept as they are, below go/.
  mv "$into/root/usr" "$into/go"
  rm -rf "$into/root"
}

# The release of a cluster's own programs: a file kubernetes/RELEASE.mod; "go" is what clusters usually are of. kubectl is always of that.
KUBERNETES_RELEASE=${COMPILECACHE_KUBERNETES:-go}

check_release() {
  [ -f "$CLUSTER_HOME/kubernetes/$KUBERNETES_RELEASE.mod" ] ||
    die "COMPILECACHE_KUBERNETES: there is no kubernetes/$KUBERNETES_RELEASE.mod; there are $(cd "$CLUSTER_HOME/kubernetes" && ls -- *.mod | tr '\n' ' ')"
}

# kubernetes_version MODFILE
kubernetes_version() { grep -oPm1 'k8s\.io/kubernetes \Kv\S+' "$CLUSTER_HOME/kubernetes/$1.mod"; }

# Whether the release's kubelet asks for what Debian 12's containerd (1.6) does not tell: 1.36 and newer do.
needs_newer_containerd() {
  printf 'v1.36\n%s\n' "$(kubernetes_version "$KUBERNETES_RELEASE")" | sort -CV
}

# helm_version FOLDER MAJOR
helm_version() { grep -oPm1 "helm\\.sh/helm/$2 \\Kv\\S+" "$CLUSTER_HOME/$1/go.mod"; }

# go_program NAME: builds one program once; prints its path.
#   NAME  etcd | coredns | dra | registry | registry_before | helm | helm3 | helm-docs | actionlint | vale |
#         cosign | containerd | containerd-shim-runc-v2 | kube-apiserver | kubectl | …
go_program() {
  local name=$1 module package path flags='-s -w' modfile=go item=$1 minor
  case $name in
    etcd) module=etcd package=go.etcd.io/etcd/server/v3 ;;
    coredns | dra | registry) module=$name package=. ;;
    registry_before) module=registry package=. modfile=before ;;
    helm)
      module=helm package=helm.sh/helm/v4/cmd/helm
      flags+=" -X helm.sh/helm/v4/internal/version.version=$(helm_version helm v4)"
      ;;
    helm3)
      module=helm3
      # As its Makefile does: `helm template` renders for the Kubernetes of its client-go.
      minor=$(grep -oPm1 'k8s\.io/client-go v0\.\K[0-9]+' "$CLUSTER_HOME/helm3/go.mod")
      flags+=" -X helm.sh/helm/v3/internal/version.version=$(helm_version helm3 v3)"
      for package in lint/rules chartutil; do
        flags+=" -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$minor"
      done
      package=helm.sh/helm/v3/cmd/helm
      ;;
    helm-docs) module=helm-docs package=github.com/norwoodj/helm-docs/cmd/helm-docs ;;
    actionlint) module=actionlint package=github.com/rhysd/actionlint/cmd/actionlint ;;
    vale) module=vale package=github.com/vale-cli/vale/v3/cmd/vale ;;
    containerd | containerd-shim-runc-v2)
      module=containerd package=github.com/containerd/containerd/v2/cmd/$name
      flags+=" -X github.com/containerd/containerd/v2/version.Version=$(grep -oPm1 'containerd/v2 \K\S+' "$CLUSTER_HOME/containerd/go.mod")"
      ;;
    cosign) module=cosign package=github.com/sigstore/cosign/v3/cmd/cosign ;;
    *)
      module=kubernetes package=k8s.io/kubernetes/cmd/$name
      if [ "$name" != kubectl ] && [ "$KUBERNETES_RELEASE" != go ]; then
        check_release
        modfile=$KUBERNETES_RELEASE item=$name-$KUBERNETES_RELEASE
        # Older ones do not read these off their version.
        flags+=" -X k8s.io/component-base/version.gitMajor=${modfile%.*} -X k8s.io/component-base/version.gitMinor=${modfile#*.}"
      fi
      # Without its version a Kubernetes program calls itself v0.0.0, and clients refuse that.
      flags+=" -X k8s.io/component-base/version.gitVersion=$(kubernetes_version "$modfile")"
      ;;
  esac
  local sources=("$CLUSTER_HOME/$module/$modfile".*)
  [ $package != . ] || sources+=("$CLUSTER_HOME/$module/main.go")
  path=$(make_item "$item" "$(hash_of "$package $flags" "${sources[@]}")" \
    build_go_program "$name" "$module" "$package" "$flags" "$modfile.mod")
  printf '%s/%s\n' "$path" "$name"
}

build_go_program() {
  local into=$1 name=$2 module=$3 package=$4 flags=$5 modfile=$6 go began=$SECONDS
  go=$(find_go)
  log "building $name (the first Kubernetes program takes about 4 minutes on 2 cores, the others less than one)"
  (cd "$CLUSTER_HOME/$module" && GOTOOLCHAIN=auto GOWORK=off GOFLAGS='' CGO_ENABLED=1 \
    nice "$go" build -modfile="$modfile" -mod=readonly -buildvcs=false -trimpath -ldflags "$flags" -o "$into/$name" "$package" >&2)
  log "built $name in $((SECONDS - began)) s"
}

CONTROL_PLANE_PROGRAMS=(etcd kube-apiserver kubectl registry helm)
NEWER_CONTAINERD_PROGRAMS=(containerd containerd-shim-runc-v2)
NODE_PROGRAMS=(kube-controller-manager kube-scheduler kubelet kube-proxy coredns dra)

prepare_control_plane() {
  local name
  install_packages "${CONTROL_PLANE_PACKAGES[@]}"
  for name in "${CONTROL_PLANE_PROGRAMS[@]}"; do go_program "$name" >/dev/null; done
}

prepare_registry() {
  install_packages "${CONTROL_PLANE_PACKAGES[@]}"
  go_program registry >/dev/null
}

prepare_helm() {
  install_packages "${CONTROL_PLANE_PACKAGES[@]}"
  go_program helm >/dev/null
}

# What looks at the chart and at the workflows.
prepare_prose() {
  install_packages gcc libc6-dev   # parts of it are C
  go_program vale >/dev/null
}

prepare_linters() {
  local name
  install_packages "${CONTROL_PLANE_PACKAGES[@]}"
  for name in helm3 helm-docs actionlint; do go_program "$name" >/dev/null; done
}

prepare_cosign() {
  install_packages "${CONTROL_PLANE_PACKAGES[@]}"
  go_program cosign >/dev/null
}

prepare_node() {
  local name
  install_packages "${CONTROL_PLANE_PACKAGES[@]}" "${NODE_PACKAGES[@]}"
  for name in "${CONTROL_PLANE_PROGRAMS[@]}" "${NODE_PROGRAMS[@]}"; do go_program "$name" >/dev/null; done
  if needs_newer_containerd; then
    for name in "${NEWER_CONTAINERD_PROGRAMS[@]}"; do go_program "$name" >/dev/null; done
  fi
  image_store base >/dev/null
}

prepare_torch() {
  install_packages "${CONTROL_PLANE_PACKAGES[@]}" "${NODE_PACKAGES[@]}"
  image_store torch >/dev/null
}

prepare_next() {
  install_packages "${CONTROL_PLANE_PACKAGES[@]}" "${NODE_PACKAGES[@]}"
  image_store next >/dev/null
}

prepare_controller() {
  install_packages "${CONTROL_PLANE_PACKAGES[@]}" "${NODE_PACKAGES[@]}"
  local name
  for name in $(needs_of "$1") "$1"; do controller_item "$name" >/dev/null; done
}
