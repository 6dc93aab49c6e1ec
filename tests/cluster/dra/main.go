// A driver of dynamic resource allocation for devices that are not there: it publishes those of a file as a node's, and a
// kubelet that prepares a claim for them is told that it is done. Scheduler, kubelet and the driver's library are real.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

var (
	name       = flag.String("driver", "", "name of the driver")
	node       = flag.String("node", "", "name of the node")
	kubeconfig = flag.String("kubeconfig", "", "how the node talks to the API server")
	kubelet    = flag.String("kubelet", "", "the kubelet's folder")
	devices    = flag.String("devices", "", "file with the node's devices: a list as in a ResourceSlice, in JSON")
)

type driver struct{}

func (driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	prepared := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		var result kubeletplugin.PrepareResult
		for _, device := range claim.Status.Allocation.Devices.Results {
			if device.Driver == *name {
				result.Devices = append(result.Devices, kubeletplugin.Device{
					Requests: []string{device.Request}, PoolName: device.Pool, DeviceName: device.Device})
			}
		}
		prepared[claim.UID] = result
	}
	return prepared, nil
}

func (driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	released := map[types.UID]error{}
	for _, claim := range claims {
		released[claim.UID] = nil
	}
	return released, nil
}

func (driver) HandleError(_ context.Context, err error, message string) {
	log.Printf("%s: %v", message, err)
}

func publish(ctx context.Context) error {
	var published []resourceapi.Device
	text, err := os.ReadFile(*devices)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &published); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data := filepath.Join(*kubelet, "plugins", *name)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, driver{}, kubeletplugin.DriverName(*name), kubeletplugin.NodeName(*node),
		kubeletplugin.KubeClient(client), kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(*kubelet, "plugins_registry")))
	if err != nil {
		return err
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		*node: {Slices: []resourceslice.Slice{{Devices: published}}}}}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := publish(ctx); err != nil {
		log.Fatal(err)
	}
}
