//go:build tools

// Pins the peer that the benchmark is measured against; go.sum has its contents.
package tools

import _ "github.com/hashicorp/vault-k8s"
