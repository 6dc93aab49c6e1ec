# Makes a small Debian root file system, as docker's debian:*-slim are made. Sourced.
# shellcheck shell=bash

# debian_root FOLDER SUITE PACKAGE...
debian_root() {
  local root=$1 suite=$2 packages=()
  shift 2
  [ $# -eq 0 ] || packages=(--include="$(IFS=, && echo "$*")")
  debootstrap --variant=minbase "${packages[@]}" "$suite" "$root" "$(debian_mirror)" \
    /usr/share/debootstrap/scripts/sid >"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2 && exit 1; }
  slim_down "$root"
}

# Removes what no container needs: package archives and lists, documentation, translations; and tells dpkg
# to leave such files out of what is installed later. Licences stay.
slim_down() {
  local root=$1
  rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/*.log "$root"/var/log/apt \
    "$root"/var/cache/debconf/*-old "$root"/debootstrap
  find "$root/usr/share/doc" -mindepth 2 ! -name copyright ! -type d -delete
  find "$root/usr/share/doc" -mindepth 1 -type d -empty -delete
  rm -rf "$root"/usr/share/{man,info,locale,groff,lintian,linda}/*
  cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'EOF'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/lintian/*
EOF
  # Starting services makes no sense while packages are installed into an image.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod 755 "$root/usr/sbin/policy-rc.d"
  rm -f "$root/etc/resolv.conf" "$root/etc/hostname"
}
