#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/random.hpp"
#include "kube/client.hpp"
#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "kube/events.hpp"
#include "kube/leader_election.hpp"
#include "kube/reflector.hpp"

// The client against a real API server, which $KUBECONFIG names.

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 600; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(milliseconds(50));
  }
  return false;
}

// The value in a ConfigMap; empty for those that the cluster itself puts into every namespace.
std::string value_of(const Json& object) {
  return object.value(Json::json_pointer("/data/value"), std::string());
}

Config cluster() {
  auto config = load_config({});
  if (!config) {
    ADD_FAILURE() << config.error().message;
    std::abort();
  }
  return *config;
}

// Each test has a namespace of its own.
class KubeTest : public ::testing::Test {
 protected:
  KubeTest() : client(*make_transport(cluster())), ns("kube-" + random_id(system_random())) {
    auto created = client.create(resources::kNamespaces, {{"metadata", {{"name", ns}}}});
    EXPECT_TRUE(created) << created.error().message;
  }
  ~KubeTest() override { client.remove(resources::kNamespaces, "", ns); }

  Json config_map(const std::string& name, const std::string& value) const {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"namespace", ns}, {"name", name}}},
            {"data", {{"value", value}}}};
  }

  Client client;
  const std::string ns;
};

TEST_F(KubeTest, ObjectsAreCreatedReadChangedAndDeleted) {
  auto created = client.create(resources::kConfigMaps, config_map("a", "1"));
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_EQ(client.create(resources::kConfigMaps, config_map("a", "1")).error().code,
            ErrorCode::kAlreadyExists);

  Json changed = *client.get(resources::kConfigMaps, ns, "a");
  changed["data"]["value"] = "2";
  ASSERT_TRUE(client.update(resources::kConfigMaps, changed));
  const auto stale = client.update(resources::kConfigMaps, changed);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, ErrorCode::kConflict);
  EXPECT_NE(stale.error().message.find("the object has been modified"), std::string::npos);

  ASSERT_TRUE(client.patch(resources::kConfigMaps, ns, "a", PatchType::kMerge,
                           {{"data", {{"other", "3"}}}}));
  ASSERT_TRUE(
      client.patch(resources::kConfigMaps, ns, "a", PatchType::kJson,
                   Json::array({{{"op", "replace"}, {"path", "/data/value"}, {"value", "4"}}})));
  const Json after = *client.get(resources::kConfigMaps, ns, "a");
  EXPECT_EQ(after["data"], (Json{{"value", "4"}, {"other", "3"}}));

  EXPECT_EQ(client.remove(resources::kConfigMaps, ns, "a", {.uid = "another"}).error().code,
            ErrorCode::kConflict);
  ASSERT_TRUE(client.remove(resources::kConfigMaps, ns, "a", {.uid = after["metadata"]["uid"]}));
  EXPECT_EQ(client.get(resources::kConfigMaps, ns, "a").error().code, ErrorCode::kNotFound);
}

TEST_F(KubeTest, DryRunChangesNothing) {
  ASSERT_TRUE(client.create(resources::kConfigMaps, config_map("a", "1"), {.dry_run = true}));
  EXPECT_EQ(client.get(resources::kConfigMaps, ns, "a").error().code, ErrorCode::kNotFound);
}

TEST_F(KubeTest, WhatTheServerRefusesIsSaidInItsWords) {
  const auto bad = client.create(resources::kConfigMaps, config_map("Not_A_Name", "1"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalid);
  EXPECT_NE(bad.error().message.find("RFC 1123"), std::string::npos) << bad.error().message;
}

TEST_F(KubeTest, ServerSideApplyOwnsFieldsAndReportsConflicts) {
  auto applied =
      client.apply(resources::kConfigMaps, config_map("a", "1"), {.field_manager = "first"});
  ASSERT_TRUE(applied) << applied.error().message;
  const auto other =
      client.apply(resources::kConfigMaps, config_map("a", "2"), {.field_manager = "second"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kConflict);
  EXPECT_NE(other.error().message.find("first"), std::string::npos) << other.error().message;
  auto forced = client.apply(resources::kConfigMaps, config_map("a", "2"),
                             {.field_manager = "second", .force = true});
  ASSERT_TRUE(forced) << forced.error().message;
  EXPECT_EQ((*forced)["data"]["value"], "2");
}

TEST_F(KubeTest, StatusIsWrittenApartFromTheSpec) {
  const Resource kClaims = resources::kPersistentVolumeClaims;
  const Json claim = {{"apiVersion", "v1"},
                      {"kind", "PersistentVolumeClaim"},
                      {"metadata", {{"namespace", ns}, {"name", "c"}}},
                      {"spec",
                       {{"accessModes", {"ReadWriteMany"}},
                        {"storageClassName", ""},
                        {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}};
  auto created = client.create(kClaims, claim);
  ASSERT_TRUE(created) << created.error().message;
  Json changed = *created;
  changed["status"]["phase"] = "Lost";
  changed["metadata"]["labels"]["ignored"] = "by-status";
  auto updated = client.update_status(kClaims, changed);
  ASSERT_TRUE(updated) << updated.error().message;
  EXPECT_EQ((*updated)["status"]["phase"], "Lost");
  ASSERT_TRUE(client.patch(kClaims, ns, "c", PatchType::kMerge, {{"status", {{"phase", "Bound"}}}},
                           {.subresource = "status"}));
  EXPECT_EQ((*client.get(kClaims, ns, "c"))["status"]["phase"], "Bound");
}

TEST_F(KubeTest, ListsComeInPagesAndBySelector) {
  for (int i = 0; i < 7; ++i) {
    Json object = config_map("m" + std::to_string(i), std::to_string(i));
    object["metadata"]["labels"]["half"] = i % 2 == 0 ? "even" : "odd";
    ASSERT_TRUE(client.create(resources::kConfigMaps, object));
  }
  auto page = client.list(resources::kConfigMaps, {.ns = ns, .limit = 3});
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ((*page)["items"].size(), 3U);
  EXPECT_FALSE((*page)["metadata"]["continue"].get<std::string>().empty());
  EXPECT_EQ((*client.list_all(resources::kConfigMaps, {.ns = ns, .limit = 3}))["items"].size(), 7U);
  const ListOptions even{.ns = ns, .label_selector = "half in (even)", .metadata_only = true};
  const Json list = *client.list(resources::kConfigMaps, even);
  EXPECT_EQ(list["items"].size(), 4U);
  EXPECT_FALSE(list["items"][0].contains("data"));
  EXPECT_EQ((*client.list(resources::kConfigMaps,
                          {.ns = ns, .field_selector = "metadata.name=m1"}))["items"]
                .size(),
            1U);
}

// Large enough for the server to compress it.
TEST_F(KubeTest, ALargeListComesWhole) {
  for (int i = 0; i < 8; ++i) {
    const std::string name = "m" + std::to_string(i);
    ASSERT_TRUE(
        client.create(resources::kConfigMaps, config_map(name, std::string(60000, 'a' + i))));
  }
  std::map<std::string, std::string> values;
  const Client::PageHandler keep{
      [&] { values.clear(); },
      [&](const Json& item) { values[item["metadata"]["name"]] = value_of(item); }};
  const auto head = client.list(resources::kConfigMaps, {.ns = ns, .label_selector = "!none"},
                                {"/data/value"}, keep);
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_FALSE(head->resource_version.empty());
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(values["m" + std::to_string(i)] == std::string(60000, 'a' + i)) << i;
  }
}

TEST_F(KubeTest, RawPathsAnswer) {
  auto version = client.raw("GET", "/version");
  ASSERT_TRUE(version) << version.error().message;
  EXPECT_EQ(Json::parse(*version)["major"], "1");
  auto review = client.create(resources::kTokenReviews, {{"apiVersion", "authentication.k8s.io/v1"},
                                                         {"kind", "TokenReview"},
                                                         {"spec", {{"token", "nonsense"}}}});
  ASSERT_TRUE(review) << review.error().message;
  EXPECT_FALSE((*review)["status"].value("authenticated", false));
}

// Whether the server has that feature and it is on. A release may have it off again.
bool has_feature(Client& client, const std::string& name) {
  const auto metrics = client.raw("GET", "/metrics");
  EXPECT_TRUE(metrics) << metrics.error().message;
  if (!metrics) return false;
  const size_t at = metrics->find("kubernetes_feature_enabled{name=\"" + name + "\"");
  const size_t value = at == std::string::npos ? at : metrics->find("} ", at);
  return value != std::string::npos && (*metrics)[value + 2] == '1';
}

TEST_F(KubeTest, AReflectorFollowsTheServer) {
  // Where the server does not send the present objects by a watch they are listed.
  const bool by_watch = has_feature(client, "WatchList");
  ASSERT_TRUE(client.create(resources::kConfigMaps, config_map("a", "1")));
  for (const bool watch_list : {true, false}) {
    SCOPED_TRACE(watch_list ? "the present objects by a watch" : "by a list");
    Store<std::string> store;
    Reflector<std::string> reflector(
        client,
        {.resource = resources::kConfigMaps,
         .ns = ns,
         .fields = {"/data/value"},
         .watch_list = watch_list},
        [](const Json& object) -> Result<std::string> {
          EXPECT_FALSE(object["metadata"].contains("uid")) << "only what is named is read";
          return value_of(object);
        },
        store);
    reflector.start();
    ASSERT_TRUE(eventually([&] { return store.has_synced(); })) << reflector.health().last_error;
    EXPECT_EQ(reflector.health().lists, watch_list && by_watch ? 0U : 1U)
        << reflector.health().last_error;
    EXPECT_NE(store.get(ns + "/a"), nullptr);
    ASSERT_TRUE(client.create(resources::kConfigMaps, config_map("b", "2")));
    EXPECT_TRUE(eventually([&] { return store.get(ns + "/b") != nullptr; }));
    const Json value = {{"data", {{"value", watch_list ? "3" : "4"}}}};
    client.patch(resources::kConfigMaps, ns, "a", PatchType::kMerge, value);
    EXPECT_TRUE(eventually([&] { return *store.get(ns + "/a") == value["data"]["value"]; }));
    client.remove(resources::kConfigMaps, ns, "b");
    EXPECT_TRUE(eventually([&] { return store.get(ns + "/b") == nullptr; }));
    EXPECT_EQ(reflector.health().syncs, 1U);
  }
}

// The server's pod is the same in both encodings, at the beginning and in changes.
TEST_F(KubeTest, PodsCanBeFollowedInProtobuf) {
  const Json pod = {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", {{"namespace", ns}, {"name", "web"}, {"labels", {{"a.b/c", "d"}}}}},
      {"spec", {{"nodeName", "n1"}, {"containers", {{{"name", "app"}, {"image", "a:1"}}}}}}};
  ASSERT_TRUE(client.create(resources::kPods, pod));
  const auto dump = [](const Json& object) -> Result<std::string> { return object.dump(); };
  const Fields fields{"/metadata/uid",
                      "/metadata/creationTimestamp",
                      "/metadata/labels",
                      "/spec/nodeName",
                      "/status/phase",
                      "/status/containerStatuses/restartCount",
                      "/status/containerStatuses/state/waiting/reason"};
  Store<std::string> texts, frames;
  Reflector<std::string> in_text(client, {.resource = resources::kPods, .ns = ns, .fields = fields},
                                 dump, texts);
  Reflector<std::string> in_frames(
      client,
      {.resource = resources::kPods, .ns = ns, .fields = fields, .protobuf = &protobuf::kPod}, dump,
      frames);
  in_text.start();
  in_frames.start();
  const std::string key = ns + "/web";
  const auto both_say = [&](const std::string& word) {
    return eventually([&] {
      const auto a = texts.get(key), b = frames.get(key);
      return a && b && *a == *b && a->find(word) != std::string::npos;
    });
  };
  EXPECT_TRUE(both_say("\"nodeName\":\"n1\"")) << *frames.get(key);
  EXPECT_EQ(in_frames.health().lists, has_feature(client, "WatchList") ? 0U : 1U)
      << in_frames.health().last_error;
  const Json status = {{"phase", "Pending"},
                       {"containerStatuses",
                        {{{"name", "app"},
                          {"image", "a:1"},
                          {"imageID", ""},
                          {"ready", false},
                          {"restartCount", 300},
                          {"state", {{"waiting", {{"reason", "CrashLoopBackOff"}}}}}}}}};
  ASSERT_TRUE(client.patch(resources::kPods, ns, "web", PatchType::kMerge, {{"status", status}},
                           {.subresource = "status"}));
  EXPECT_TRUE(both_say("CrashLoopBackOff")) << *frames.get(key);
  ASSERT_TRUE(client.remove(resources::kPods, ns, "web", {.grace_period_seconds = 0}));
  EXPECT_TRUE(eventually([&] { return frames.size() == 0 && texts.size() == 0; }));
}

// Errors are in words, in whatever encoding they came.
TEST_F(KubeTest, ARefusedWatchInProtobufSaysWhy) {
  const StreamEnd end = client.watch(
      resources::kPods, {.ns = ns, .label_selector = "no selector", .protobuf = true},
      [](std::string_view) { return true; }, Cancellation());
  ASSERT_EQ(end.kind, StreamEnd::Kind::kStatus);
  const Error error = api_error(end.response, "watching");
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_NE(error.message.find("unable to parse"), std::string::npos) << error.message;
}

// A version that the server has not reached yet: it says so, and the reflector takes what there is.
TEST_F(KubeTest, ListsOfTheFutureAreTooLargeAndOfThePastAreServed) {
  const auto future =
      client.list(resources::kConfigMaps, {.ns = ns, .resource_version = "9999999999"});
  ASSERT_FALSE(future);
  EXPECT_EQ(future.error().code, ErrorCode::kTimeout);
  EXPECT_NE(future.error().message.find("Too large resource version"), std::string::npos)
      << future.error().message;
  EXPECT_TRUE(client.list(resources::kConfigMaps, {.ns = ns, .resource_version = "1"}));
}

TEST_F(KubeTest, NodesCanBeFollowedByTheirMetadataAlone) {
  const std::string name = ns + "-node";
  ASSERT_TRUE(
      client.create(resources::kNodes, {{"apiVersion", "v1"},
                                        {"kind", "Node"},
                                        {"metadata", {{"name", name}, {"labels", {{"a", "b"}}}}},
                                        {"spec", {{"podCIDR", "10.0.0.0/24"}}}}));
  for (const bool watch_list : {true, false}) {
    Store<std::string> store;
    Reflector<std::string> reflector(
        client,
        {.resource = resources::kNodes,
         .fields = {"/metadata/labels", "/spec"},
         .metadata_only = true,
         .watch_list = watch_list},
        [](const Json& node) -> Result<std::string> {
          EXPECT_FALSE(node.contains("spec"));
          return node["metadata"].value(Json::json_pointer("/labels/a"), std::string());
        },
        store);
    reflector.start();
    ASSERT_TRUE(eventually([&] { return store.has_synced(); })) << reflector.health().last_error;
    ASSERT_NE(store.get(name), nullptr);
    EXPECT_EQ(*store.get(name), "b");
    const Json changed = {{"metadata", {{"labels", {{"a", watch_list ? "c" : "d"}}}}}};
    client.patch(resources::kNodes, "", name, PatchType::kMerge, changed);
    EXPECT_TRUE(eventually([&] { return *store.get(name) == changed["metadata"]["labels"]["a"]; }))
        << reflector.health().last_error;
    client.patch(resources::kNodes, "", name, PatchType::kMerge,
                 {{"metadata", {{"labels", {{"a", "b"}}}}}});
  }
  client.remove(resources::kNodes, "", name);
}

TEST_F(KubeTest, CancellingEndsAWatchOverTls) {
  Cancellation cancel;
  std::atomic<bool> seen{false};
  std::thread watcher([&] {
    const StreamEnd end = client.watch(
        resources::kConfigMaps, {.ns = ns, .resource_version = "0"},
        [&](std::string_view) {
          seen = true;
          return true;
        },
        cancel);
    EXPECT_EQ(end.kind, StreamEnd::Kind::kCancelled);
  });
  ASSERT_TRUE(client.create(resources::kConfigMaps, config_map("a", "1")));
  EXPECT_TRUE(eventually([&] { return seen.load(); }));
  cancel.cancel();
  watcher.join();
}

TEST_F(KubeTest, EventsAppearWithTheirCount) {
  EventRecorder recorder(client, "kube-test");
  const ObjectReference about{"v1", "ConfigMap", ns, "a", "uid-a"};
  recorder.warning(about, "Broken", "for the test");
  recorder.warning(about, "Broken", "for the test");
  recorder.stop();
  const Json events = (*client.list(resources::kEvents, {.ns = ns}))["items"];
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["reason"], "Broken");
  EXPECT_EQ(events[0]["count"], 2);
}

TEST_F(KubeTest, TheSecondElectorLeadsWhenTheFirstStops) {
  std::atomic<int> lost{0};
  const auto options = [&](const std::string& identity) {
    return LeaderElectionOptions{.ns = ns, .name = "lock", .lease = {.identity = identity}};
  };
  LeaderElector one(client, options("one"), {.on_lost = [&] { ++lost; }});
  LeaderElector two(client, options("two"), {.on_lost = [&] { ++lost; }});
  ASSERT_TRUE(one.start());
  ASSERT_TRUE(eventually([&] { return one.is_leader(); }));
  ASSERT_TRUE(two.start());
  EXPECT_TRUE(eventually([&] { return two.leader() == "one"; }));
  // Through some renewals nothing changes.
  const auto renew_time = [&] {
    return (*client.get(resources::kLeases, ns, "lock"))["spec"]["renewTime"].get<std::string>();
  };
  const std::string first = renew_time();
  EXPECT_TRUE(eventually([&] { return renew_time() != first; }));
  EXPECT_TRUE(one.is_leader());
  EXPECT_FALSE(two.is_leader());
  one.stop();
  EXPECT_TRUE(eventually([&] { return two.is_leader(); }));
  EXPECT_EQ(two.transitions(), 1);
  two.stop();
  EXPECT_EQ(lost, 0);
}

// --- what the connection proves -----------------------------------------------------------

TEST(KubeTls, AServerOfAnotherNameOrAuthorityIsRefused) {
  Config config = cluster();
  config.tls_server_name = "somebody.else";
  const auto other_name = Client(*make_transport(config)).raw("GET", "/version");
  ASSERT_FALSE(other_name);
  EXPECT_EQ(other_name.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(other_name.error().message.find("certificate"), std::string::npos)
      << other_name.error().message;

  config.tls_server_name = "kubernetes.default.svc";
  const auto named = Client(*make_transport(config)).raw("GET", "/version");
  EXPECT_TRUE(named) << named.error().message;

  config.tls_server_name.clear();
  config.ca = {};  // the system's authorities do not know this one
  EXPECT_FALSE(Client(*make_transport(config)).raw("GET", "/version"));
  config.insecure_skip_tls_verify = true;
  EXPECT_TRUE(Client(*make_transport(config)).raw("GET", "/version"));
}

TEST(KubeTls, WithoutCredentialsTheServerSaysNo) {
  Config config = cluster();
  config.client_certificate = {};
  config.client_key = {};
  config.token.clear();
  const Client anonymous(*make_transport(config));
  const auto got = anonymous.list(resources::kSecrets, {.ns = "kube-system"});
  ASSERT_FALSE(got);
  EXPECT_TRUE(got.error().code == ErrorCode::kForbidden ||
              got.error().code == ErrorCode::kUnauthorized)
      << got.error().message;
}

TEST(KubeTls, ATokenOfAServiceAccountIsAccepted) {
  const Client admin(*make_transport(cluster()));
  const std::string name = "kube-" + random_id(system_random());
  const Resource accounts{"", "v1", "serviceaccounts", true};
  ASSERT_TRUE(admin.create(accounts, {{"metadata", {{"namespace", "default"}, {"name", name}}}}));
  const Json request = {{"apiVersion", "authentication.k8s.io/v1"},
                        {"kind", "TokenRequest"},
                        {"spec", Json::object()}};
  const auto token = admin.raw("POST", accounts.path("default", name, "token"), request.dump());
  ASSERT_TRUE(token) << token.error().message;
  Config config = cluster();
  config.client_certificate = {};
  config.client_key = {};
  config.token = Json::parse(*token)["status"]["token"];
  const Client account(*make_transport(config));
  EXPECT_TRUE(account.raw("GET", "/version"));
  const auto denied = account.list(resources::kSecrets, {.ns = "default"});
  ASSERT_FALSE(denied);
  EXPECT_NE(denied.error().message.find("system:serviceaccount:default:" + name), std::string::npos)
      << denied.error().message;
  admin.remove(accounts, "default", name);
}

}  // namespace
}  // namespace compilecache::kube
