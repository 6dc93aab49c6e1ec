#include "operator/agents/agent_routes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/agent_api.hpp"
#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

constexpr std::string_view kId = "{id}";

Result<std::string> dump_answer(const Status& done) {
  if (!done) return unexpected(done.error());
  return "{}";
}

template <typename Answer>
Result<std::string> dump_answer(const Result<Answer>& answer) {
  if (!answer) return unexpected(answer.error());
  return api::dump(*answer);
}

// Parameters and result of a service's method.
template <typename Method>
struct Call;
template <typename Service, typename Answer, typename Message>
struct Call<Result<Answer> (Service::*)(const Caller&, const Message&)> {
  using Sent = Message;
  using Given = Answer;
};
template <typename Service, typename Message>
struct Call<Status (Service::*)(const Caller&, const Message&)> {
  using Sent = Message;
  using Given = void;
};
template <typename Service, typename Answer, typename Message>
struct Call<Result<Answer> (Service::*)(const Caller&, const std::string&, const Message&)> {
  using Sent = Message;
  using Given = Answer;
};
template <typename Service, typename Message>
struct Call<Status (Service::*)(const Caller&, const std::string&, const Message&)> {
  using Sent = Message;
  using Given = void;
};
template <typename Service, typename Answer, typename Message>
struct Call<Result<Answer> (Service::*)(const Caller&, const Message&) const> {
  using Sent = Message;
  using Given = Answer;
};
template <typename Service>
struct Call<Status (Service::*)(const Caller&, const std::string&)> {
  using Sent = void;
  using Given = void;
};

template <auto Service, auto Method, typename Services>
Result<std::string> serve(Services& services, const Caller& caller,
                          [[maybe_unused]] const std::string& id,
                          [[maybe_unused]] const std::string& body) {
  using Sent = typename Call<decltype(Method)>::Sent;
  auto& service = services.*Service;
  if constexpr (std::is_void_v<Sent>) {
    return dump_answer((service.*Method)(caller, id));
  } else {
    const auto message = api::parse<Sent>(body);
    if (!message) return unexpected(message.error());
    if constexpr (std::is_invocable_v<decltype(Method), decltype(service), const Caller&,
                                      const Sent&>) {
      return dump_answer((service.*Method)(caller, *message));
    } else {
      return dump_answer((service.*Method)(caller, id, *message));
    }
  }
}

template <typename Message>
constexpr std::optional<MessageDoc> doc_of() {
  if constexpr (std::is_void_v<Message>) {
    return std::nullopt;
  } else {
    return MessageDoc{api::message_name<Message>, [] { return api::dump(Message{}); }};
  }
}

template <auto Service, auto Method>
constexpr Route route(std::string_view method, std::string_view path, std::string_view says,
                      size_t longest_body = api::kLongestMessage) {
  return {.method = method,
          .path = path,
          .longest_body = longest_body,
          .message = doc_of<typename Call<decltype(Method)>::Sent>(),
          .answer = doc_of<typename Call<decltype(Method)>::Given>(),
          .says = says,
          .serve = serve<Service, Method, AgentServices>};
}

using Desk = AgentServices;

constexpr Route kRoutes[] = {
    route<&Desk::loads, &LoadService::load>(
        "POST", "/v1/load", "Which archive is this pod's? Asked again while the answer is `wait`.")
        .anywhere(serve<&FollowerServices::loads, &FollowerLoads::load, FollowerServices>),
    route<&Desk::loads, &LoadService::loaded>("POST", "/v1/loaded",
                                              "The result of the load, or why there was none."),
    route<&Desk::saves, &SaveService::request>(
        "POST", "/v1/saves", "May this pod save now? A grant is a lock, with an id and a fence."),
    route<&Desk::saves, &SaveService::renew>(
        "PUT", "/v1/saves/{id}", "The saver is still at it. 409: it has lost the lock, and stops."),
    route<&Desk::saves, &SaveService::commit>(
        "POST", "/v1/saves/{id}/commit",
        "The written archive becomes the head. 409: an old fence, or a blob that is condemned or "
        "distrusted."),
    route<&Desk::saves, &SaveService::release>("DELETE", "/v1/saves/{id}",
                                               "Gives the lock back. Not to hold it is no error."),
    route<&Desk::effects, &EffectService::effect>(
        "POST", "/v1/effect",
        "The effect of the loaded archive so far, and the result of the pod's last save."),
    route<&Desk::sweeps, &SweepService::sweep>(
        "POST", "/v1/sweeps",
        "A sweep Job takes over a store, begins, reports copied archives or a page of the "
        "inventory, ends, or reports that it could not make one.",
        api::kLongestSweepMessage),
    route<&Desk::registry, &RegistryTokenService::token>(
        "POST", "/v1/registry-token",
        "A token of the installation's own registry, for the CompileCache's repository alone, or "
        "to "
        "read the one that it copies from. 404: there is no such registry.")
        .anywhere(serve<&FollowerServices::registry, &FollowerTokens::token, FollowerServices>),
};

// The part that "{id}" stands for, "" where there is none; nothing: it is another path.
std::optional<std::string> match(std::string_view pattern, std::string_view path) {
  const std::vector<std::string> wanted = split(pattern, '/');
  const std::vector<std::string> parts = split(path, '/');
  if (wanted.size() != parts.size()) return std::nullopt;
  std::string id;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (wanted[i] == kId && !parts[i].empty()) {
      id = parts[i];
    } else if (wanted[i] != parts[i]) {
      return std::nullopt;
    }
  }
  return id;
}

std::string size_text(size_t bytes) {
  return bytes % (1U << 20) == 0 ? std::to_string(bytes >> 20) + " MiB"
                                 : std::to_string(bytes >> 10) + " KiB";
}

std::string name_text(const std::optional<MessageDoc>& message) {
  return message ? "`" + std::string(message->name()) + "`" : "–";
}

void describe_fields(const std::optional<MessageDoc>& message, std::set<std::string>& described,
                     std::string& text) {
  if (!message || !described.insert(std::string(message->name())).second) return;
  text += "\n### " + std::string(message->name()) + "\n\n```json\n" +
          nlohmann::json::parse(message->fields()).dump(2) + "\n```\n";
}

}  // namespace

std::span<const Route> agent_routes() { return kRoutes; }

RouteMatch find_route(std::string_view method, std::string_view path) {
  RouteMatch found;
  for (const Route& route : kRoutes) {
    auto id = match(route.path, path);
    if (!id) continue;
    found.path_known = true;
    if (route.method != method) continue;
    found.route = &route;
    found.id = std::move(*id);
  }
  return found;
}

size_t longest_agent_message() {
  size_t longest = 0;
  for (const Route& route : kRoutes) longest = std::max(longest, route.longest_body);
  return longest;
}

std::string describe_routes() {
  std::string text =
      "| call | message | at most | answer | answered by | |\n"
      "|---|---|---|---|---|---|\n";
  for (const Route& route : kRoutes) {
    text += "| `" + std::string(route.method) + " " + std::string(route.path) + "` | " +
            name_text(route.message) + " | " +
            (route.message ? size_text(route.longest_body) : "–") + " | " +
            name_text(route.answer) + " | " +
            (route.serve_anywhere != nullptr ? "every replica" : "the leader") + " | " +
            std::string(route.says) + " |\n";
  }
  std::set<std::string> described;
  for (const Route& route : kRoutes) {
    describe_fields(route.message, described, text);
    describe_fields(route.answer, described, text);
  }
  return text;
}

}  // namespace compilecache::controller
