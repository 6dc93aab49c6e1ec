#include "kube/protobuf_messages.hpp"

namespace compilecache::kube::protobuf {
namespace {

using enum Field::Kind;

constexpr Field kOwnerFields[] = {
    {1, "kind", kText},       {3, "name", kText},       {4, "uid", kText},
    {5, "apiVersion", kText}, {6, "controller", kFlag}, {7, "blockOwnerDeletion", kFlag},
};
constexpr Message kOwner{kOwnerFields};

constexpr Field kMetadataFields[] = {
    {1, "name", kText},
    {2, "generateName", kText},
    {3, "namespace", kText},
    {5, "uid", kText},
    {6, "resourceVersion", kText},
    {7, "generation", kNumber},
    {8, "creationTimestamp", kTime},
    {9, "deletionTimestamp", kTime},
    {10, "deletionGracePeriodSeconds", kNumber},
    {11, "labels", kTextMap},
    {12, "annotations", kTextMap},
    {13, "ownerReferences", kMessage, &kOwner, true},
};
constexpr Message kMetadata{kMetadataFields};

constexpr Field kPodSpecFields[] = {{8, "serviceAccountName", kText}, {10, "nodeName", kText}};
constexpr Message kPodSpec{kPodSpecFields};

constexpr Field kConditionFields[] = {
    {1, "type", kText},   {2, "status", kText},  {4, "lastTransitionTime", kTime},
    {5, "reason", kText}, {6, "message", kText},
};
constexpr Message kCondition{kConditionFields};

constexpr Field kWaitingFields[] = {{1, "reason", kText}, {2, "message", kText}};
constexpr Message kWaiting{kWaitingFields};
constexpr Field kRunningFields[] = {{1, "startedAt", kTime}};
constexpr Message kRunning{kRunningFields};
constexpr Field kTerminatedFields[] = {
    {1, "exitCode", kNumber}, {2, "signal", kNumber},  {3, "reason", kText},
    {4, "message", kText},    {5, "startedAt", kTime}, {6, "finishedAt", kTime},
};
constexpr Message kTerminated{kTerminatedFields};

constexpr Field kStateFields[] = {
    {1, "waiting", kMessage, &kWaiting},
    {2, "running", kMessage, &kRunning},
    {3, "terminated", kMessage, &kTerminated},
};
constexpr Message kState{kStateFields};

constexpr Field kContainerFields[] = {
    {1, "name", kText},    {2, "state", kMessage, &kState}, {3, "lastState", kMessage, &kState},
    {4, "ready", kFlag},   {5, "restartCount", kNumber},    {6, "image", kText},
    {7, "imageID", kText}, {8, "containerID", kText},       {9, "started", kFlag},
};
constexpr Message kContainer{kContainerFields};

constexpr Field kPodStatusFields[] = {
    {1, "phase", kText},
    {2, "conditions", kMessage, &kCondition, true},
    {3, "message", kText},
    {4, "reason", kText},
    {8, "containerStatuses", kMessage, &kContainer, true},
    {10, "initContainerStatuses", kMessage, &kContainer, true},
};
constexpr Message kPodStatus{kPodStatusFields};

constexpr Field kPodFields[] = {
    {1, "metadata", kMessage, &kMetadata},
    {2, "spec", kMessage, &kPodSpec},
    {3, "status", kMessage, &kPodStatus},
};

constexpr Field kStatusFields[] = {
    {2, "status", kText}, {3, "message", kText}, {4, "reason", kText}, {6, "code", kNumber}};

}  // namespace

constexpr Message kPod{kPodFields};
constexpr Message kStatus{kStatusFields};

}  // namespace compilecache::kube::protobuf
