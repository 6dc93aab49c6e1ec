#include "operator/storage/sweep_refusal.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/strings.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

constexpr int kMostEvents = 100;
constexpr size_t kLongestRefusal = 512;
constexpr std::array<std::string_view, 4> kAboutPrivileges{
    "violates PodSecurity", "security context constraint", "denied the request", "denied request"};

}  // namespace

Result<std::string> read_refusal(const kube::Client& client, const SweepJob& job) {
  static const kube::Fields kFields{
      "/involvedObject/uid", "/reason",    "/message",
      "/lastTimestamp",      "/eventTime", "/series/lastObservedTime"};
  WallTime newest{};
  std::string refusal;
  const kube::Client::PageHandler page{
      [&] {
        newest = {};
        refusal.clear();
      },
      [&](const json& event) {
        if (kube::string_at(event, {"involvedObject", "uid"}) != job.uid) return;
        if (kube::string_at(event, {"reason"}) != "FailedCreate") return;
        const WallTime time = time_of_event(event).value_or(WallTime{});
        if (time < newest) return;
        newest = time;
        refusal = first_bytes(kube::string_at(event, {"message"}), kLongestRefusal);
      }};
  const auto read =
      client.list(kube::resources::kEvents,
                  {.ns = job.ns,
                   .field_selector = "involvedObject.uid=" + job.uid + ",reason=FailedCreate",
                   .limit = kMostEvents},
                  kFields, page);
  if (!read) return unexpected(read.error().with("reading why Job " + job.name + " has no pod"));
  return refusal;
}

bool is_about_privileges(std::string_view refusal) {
  return std::any_of(
      kAboutPrivileges.begin(), kAboutPrivileges.end(),
      [&](std::string_view phrase) { return refusal.find(phrase) != std::string_view::npos; });
}

}  // namespace compilecache::controller
