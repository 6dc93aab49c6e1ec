// A CoreDNS with the plugins that a small test cluster needs, and no others: it builds in under a minute.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

// Order in which a query passes through the plugins.
func init() {
	dnsserver.Directives = []string{"bind", "errors", "health", "ready", "cache", "kubernetes"}
}

func main() {
	coremain.Run()
}
