# shellcheck shell=bash
# What config/install.yaml says. Sourced by tests/run.sh and examples/demo.sh.

# operator_image MANIFEST: the image of the operator's container. A CRD has fields named `image` too, without a value.
operator_image() { sed -n 's/^ *image: *\([^ ].*\)$/\1/p' "$1" | head -n 1; }
