// The peer of the benchmark: the least that a controller-runtime program does for the same job. It watches pods, nodes,
// CompileCaches and CompileCacheArchives and, for each change of a pod, counts the pods of its CompileCache. It writes
// nothing.
//
//	controller_runtime -variant default|selector|metadata
//
//	default   every pod and node, whole, as a new program does
//	selector  pods with our label only; managedFields dropped
//	metadata  as selector, and of pods, nodes and archives only the metadata
//
// Says "synced" on standard output when the caches are filled, and "looked" when every CompileCache was looked at once.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const label = "compilecache.dev/cache"

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func metadataOf(kind, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: version}}
}

// The objects to watch, and the caches' options, by variant.
func choose(variant string) (pod, node, archive client.Object, options cache.Options) {
	pod, node, archive = &corev1.Pod{}, &corev1.Node{}, &CompileCacheArchive{}
	if variant == "default" {
		return
	}
	if variant == "metadata" {
		pod, node = metadataOf("Pod", "v1"), metadataOf("Node", "v1")
		archive = metadataOf("CompileCacheArchive", groupVersion.String())
	}
	selector, err := labels.Parse(label)
	must(err)
	options.DefaultTransform = cache.TransformStripManagedFields()
	options.ByObject = map[client.Object]cache.ByObject{pod: {Label: selector}}
	return
}

type counter struct {
	client.Client
	metadata bool
	seen     sync.Map
	met      atomic.Int64
}

func (c *counter) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var owner CompileCache
	if err := c.Get(ctx, request.NamespacedName, &owner); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var pods client.ObjectList = &corev1.PodList{}
	if c.metadata {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		pods = list
	}
	err := c.List(ctx, pods, client.InNamespace(request.Namespace), client.MatchingLabels{label: request.Name})
	if err != nil {
		return reconcile.Result{}, err
	}
	if _, again := c.seen.LoadOrStore(request.NamespacedName, true); !again {
		c.met.Add(1)
	}
	return reconcile.Result{}, nil
}

func ownerOf(_ context.Context, pod client.Object) []reconcile.Request {
	name, ok := pod.GetLabels()[label]
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}

func main() {
	variant := flag.String("variant", "default", "default, selector or metadata")
	expected := flag.Int64("caches", 200, "say looked when so many CompileCaches were looked at")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	must(corev1.AddToScheme(scheme))
	scheme.AddKnownTypes(groupVersion, &CompileCache{}, &CompileCacheList{}, &CompileCacheArchive{},
		&CompileCacheArchiveList{})
	metav1.AddToGroupVersion(scheme, groupVersion)

	pod, node, archive, options := choose(*variant)
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme: scheme, Cache: options, Metrics: server.Options{BindAddress: "0"}})
	must(err)
	count := &counter{Client: manager.GetClient(), metadata: *variant == "metadata"}
	must(ctrl.NewControllerManagedBy(manager).For(&CompileCache{}).
		Watches(pod, handler.EnqueueRequestsFromMapFunc(ownerOf)).Complete(count))
	ctx := ctrl.SetupSignalHandler()
	// All of them, so that WaitForCacheSync waits for all of them.
	for _, object := range []client.Object{pod, node, archive, &CompileCache{}} {
		_, err := manager.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		must(err)
	}
	go func() {
		if manager.GetCache().WaitForCacheSync(ctx) {
			fmt.Println("synced")
			for count.met.Load() < *expected && ctx.Err() == nil {
				wait(ctx)
			}
			fmt.Println("looked")
		}
	}()
	must(manager.Start(ctx))
}

func wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
}
