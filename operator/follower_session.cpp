#include "operator/follower_session.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "operator/agents/device_reader.hpp"
#include "operator/agents/load_desk.hpp"

namespace compilecache::controller {
namespace {

// A load has three seconds. While etcd is down, a GET has no response at all.
constexpr std::chrono::milliseconds kArchiveRead{300};

}  // namespace

kube::Client archive_reader(const kube::Client& client) {
  return client.with_timeout(kArchiveRead, 0);
}

struct FollowerSession::Impl {
  explicit Impl(FollowerParts given)
      : parts(std::move(given)),
        view(parts.stores),
        auth(
            [this](const nlohmann::json& review) {
              return parts.client.create(kube::resources::kTokenReviews, review);
            },
            parts.settings.token_cache, parts.clock),
        traffic(LoadDesk::places(parts.settings), parts.clock),
        devices(resource_api(parts.client), parts.settings.device_drivers),
        archives(archive_reader(parts.client)),
        desk(desk_parts(), parts.settings, parts.clock) {}

  LoadDeskParts desk_parts();
  void watch_pods();

  const FollowerParts parts;
  const ClusterView view;
  TokenAuth auth;
  LoadTraffic traffic;
  DeviceReader devices;
  KubeArchiveClient archives;
  LoadDesk desk;
};

LoadDeskParts FollowerSession::Impl::desk_parts() {
  return {
      .view = view,
      .auth = auth,
      .traffic = traffic,
      .archives = archives,
      .heard = [this] { return parts.watch.archives_heard(); },
      .has_synced = [this] { return parts.stores.caches.has_synced() && parts.watch.has_synced(); },
      .fetch_pod = [this](const std::string& ns, const std::string& name) -> Result<PodView> {
        auto object = parts.client.get(kube::resources::kPods, ns, name);
        if (!object) return unexpected(object.error());
        return parse_pod(*object);
      },
      .devices = [this](const PodView& pod,
                        const std::string& node) { return devices.read(pod, node); },
      .minter = parts.minter};
}

// Pods report their loads to the leader. This replica frees a place when the application runs.
void FollowerSession::Impl::watch_pods() {
  parts.stores.pods.add_handlers(
      {.on_change = [this](const std::string&, const auto& before, const auto& after) {
        const bool gone = !after || after->ended();
        const std::string& uid = (after ? after : before)->uid;
        if (gone || after->runs()) traffic.gone(uid);
        if (gone) devices.gone(uid);
      }});
}

FollowerSession::FollowerSession(FollowerParts parts)
    : impl_(std::make_unique<Impl>(std::move(parts))) {}

FollowerSession::~FollowerSession() { stop(); }

void FollowerSession::start() {
  impl_->watch_pods();
  impl_->desk.start();
}

void FollowerSession::stop() { impl_->desk.stop(); }

void FollowerSession::handle(http::Request request, http::Responder respond) {
  impl_->desk.handle(std::move(request), std::move(respond));
}

}  // namespace compilecache::controller
