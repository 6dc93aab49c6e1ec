# Which libraries a program needs, found from itself. Sourced after target.sh's target().
# shellcheck shell=bash

declare -A libraries=()                                   # files, by their names: libssl.so.3 -> /usr/lib/x86_64-linux-gnu/libssl.so.3
readelf=$(command -v "${prefix}readelf" || echo readelf)  # any reads programs of all architectures

# find_libraries ROOT FILE...: adds what the programs or libraries need to `libraries`, and what these need. They are in ROOT.
find_libraries() {
  local root=$1 file name names
  shift
  for file in "$@"; do
    names=$("$readelf" -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p')
    for name in $names; do
      if [ -n "${libraries[$name]-}" ]; then continue; fi
      libraries[$name]=$root/usr/lib/$triplet/$name
      if ! [ -e "${libraries[$name]}" ]; then
        echo "image: $file needs $name, which is not in $root/usr/lib/$triplet" >&2
        exit 1
      fi
      find_libraries "$root" "${libraries[$name]}"
    done
  done
}

# loader_of PROGRAM: the file that starts it, /lib64/ld-linux-x86-64.so.2; nothing for one that is linked statically
loader_of() { "$readelf" -lW "$1" | sed -n 's/.*program interpreter: \(.*\)\]$/\1/p'; }
