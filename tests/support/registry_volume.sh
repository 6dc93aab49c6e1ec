# The ReadWriteOnce volume that a cluster would make for the registry's claim. Sourced. shellcheck shell=bash

# registry_volume FOLDER: makes the folder; prints the PersistentVolume.
registry_volume() {
  mkdir -m 777 "$1"
  cat <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: compilecache-registry}
spec:
  capacity: {storage: 50Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  claimRef: {namespace: compilecache-system, name: compilecache-registry}
  hostPath: {path: $1, type: Directory}
YAML
}
