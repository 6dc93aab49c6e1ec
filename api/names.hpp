#pragma once

// Names that webhook, operator, agents, users and manifests agree on (docs/design/architecture.md).

namespace compilecache::api {

inline constexpr char kGroup[] = "compilecache.dev";
inline constexpr char kVersion[] = "v1alpha1";
inline constexpr char kApiVersion[] = "compilecache.dev/v1alpha1";

// Annotations on the pod template, written by users.
inline constexpr char kCacheAnnotation[] = "compilecache.dev/cache";
inline constexpr char kContainersAnnotation[] = "compilecache.dev/containers";
inline constexpr char kVersionAnnotation[] = "compilecache.dev/version";
inline constexpr char kFrameworksAnnotation[] = "compilecache.dev/frameworks";
inline constexpr char kModeAnnotation[] = "compilecache.dev/mode";
inline constexpr char kQuietPeriodAnnotation[] = "compilecache.dev/quiet-period";
inline constexpr char kWaitForFirstAnnotation[] = "compilecache.dev/wait-for-first";
inline constexpr char kOnlyIfUnsetAnnotation[] = "compilecache.dev/only-if-unset";
inline constexpr char kStartKitAnnotation[] = "compilecache.dev/start-kit";
inline constexpr char kDeliveryAnnotation[] = "compilecache.dev/delivery";
// An init container, such as a mesh's proxy, after which the injected ones are put.
inline constexpr char kAfterAnnotation[] = "compilecache.dev/after";
inline constexpr char kResourcesAnnotation[] = "compilecache.dev/resources";
// Of a pod without a controller: the workload, "Deployment/web", whose archives it shares.
inline constexpr char kWorkloadAnnotation[] = "compilecache.dev/workload";
// Written by the webhook: what was injected and by which version, as JSON (InjectionStatus).
inline constexpr char kStatusAnnotation[] = "compilecache.dev/status";

// On pods and archives: their CompileCache. The operator watches pods with this label.
inline constexpr char kCacheLabel[] = "compilecache.dev/cache";
inline constexpr char kGpuProductLabel[] = "compilecache.dev/gpu-product";
// On sweep Jobs and their pods: the CompileCache whose store they sweep.
inline constexpr char kSweepLabel[] = "compilecache.dev/sweep";
// On pods that `kubectl compilecache prewarm` makes.
inline constexpr char kPrewarmLabel[] = "compilecache.dev/prewarm";

// The webhook's additions to a pod. Where one sidecar loads and saves, it has the saver's name.
inline constexpr char kLoaderContainer[] = "compilecache-load";
inline constexpr char kSaverContainer[] = "compilecache-save";
inline constexpr char kCacheVolume[] = "compilecache-cache";
inline constexpr char kStoreVolume[] = "compilecache-store";
// Of a sweep Job that copies archives from another store: that one's.
inline constexpr char kSourceVolume[] = "compilecache-source";
inline constexpr char kSourceSecretVolume[] = "compilecache-source-registry";
inline constexpr char kSourceCaVolume[] = "compilecache-source-registry-ca";
inline constexpr char kTokenVolume[] = "compilecache-token";
inline constexpr char kRegistrySecretVolume[] = "compilecache-registry";
inline constexpr char kRegistryCaVolume[] = "compilecache-registry-ca";
inline constexpr char kSpoolVolume[] = "compilecache-spool";
inline constexpr char kStateVolume[] = "compilecache-state";

// Paths in containers. The cache directory is the same in every pod because frameworks embed
// absolute paths.
inline constexpr char kCachePath[] = "/compilecache/cache";
inline constexpr char kStorePath[] = "/compilecache/store";
// A user's registry needs these of the Secret and the ConfigMap that the CompileCache names. The
// folders are empty where these do not exist.
inline constexpr char kRegistrySecretPath[] = "/compilecache/registry";
inline constexpr char kRegistrySecretKey[] = ".dockerconfigjson";
inline constexpr char kRegistryCaPath[] = "/compilecache/registry-ca";
inline constexpr char kRegistryCaKey[] = "ca.crt";
// The same of a store that a sweep Job copies from.
inline constexpr char kSourcePath[] = "/compilecache/source";
inline constexpr char kSourceSecretPath[] = "/compilecache/source-registry";
inline constexpr char kSourceCaPath[] = "/compilecache/source-registry-ca";
// The saver's own folder for what it is about to send to a registry.
inline constexpr char kSpoolPath[] = "/compilecache/spool";
// Where a sidecar that loads and saves notes that the load is over (agent/load_record.hpp).
inline constexpr char kStatePath[] = "/compilecache/state";
// Our projected token is mounted where the pod's API token would be, so that the ServiceAccount
// admission mounts none of the user's into our containers.
inline constexpr char kTokenPath[] = "/var/run/secrets/kubernetes.io/serviceaccount";
// The app and the saver exchange files here, and the loader leaves its status.json.
inline constexpr char kControlPath[] = "/compilecache/cache/control";

inline constexpr char kTokenAudience[] = "compilecache.dev/operator";

// Variables of the loader, the saver and the sweep Job.
inline constexpr char kConfigVariable[] = "COMPILECACHE_CONFIG";
inline constexpr char kPodNameVariable[] = "COMPILECACHE_POD_NAME";
inline constexpr char kPodUidVariable[] = "COMPILECACHE_POD_UID";
inline constexpr char kNamespaceVariable[] = "COMPILECACHE_NAMESPACE";
inline constexpr char kNodeNameVariable[] = "COMPILECACHE_NODE_NAME";

// Services in the operator's namespace; also the names in the certificate (NAME.NAMESPACE.svc).
inline constexpr char kWebhookService[] = "compilecache-webhook";
inline constexpr char kAgentService[] = "compilecache-agent-api";
inline constexpr char kLoadService[] = "compilecache-load-api";  // has no certificate of its own
inline constexpr char kRegistryService[] = "compilecache-registry";
inline constexpr int kRegistryPort = 5000;

}  // namespace compilecache::api
