#include "tests/support/kubectl.hpp"

#include <cstdlib>
#include <thread>

namespace compilecache::testing {

ProcessResult kubectl(const std::vector<std::string>& arguments, const std::string& input,
                      std::chrono::seconds limit) {
  const char* program = std::getenv("KUBECTL");
  std::vector<std::string> command{program == nullptr ? "kubectl" : program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command, input, limit);
}

nlohmann::json get_json(const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"get", "-o", "json", "--ignore-not-found"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const nlohmann::json object = nlohmann::json::parse(kubectl(all).out, nullptr, false);
  return object.is_discarded() ? nlohmann::json() : object;
}

std::string apply(const nlohmann::json& object) {
  const ProcessResult result = kubectl({"apply", "-f", "-"}, object.dump());
  return result.exit_code == 0 ? "" : "kubectl apply: " + result.err + result.out;
}

nlohmann::json at(const nlohmann::json& object, const std::string& pointer) {
  const nlohmann::json::json_pointer path(pointer);
  return object.is_structured() && object.contains(path) ? object.at(path) : nlohmann::json();
}

bool eventually(std::chrono::seconds limit, const std::function<bool()>& predicate) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    if (predicate()) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

bool are_established(const std::vector<std::string>& crds) {
  std::vector<std::string> wait{"wait", "--for=condition=Established", "--timeout=5s"};
  for (const std::string& name : crds) wait.push_back("crd/" + name);
  // It fails at once where a new one has no conditions yet.
  return eventually(std::chrono::seconds(30), [&] { return kubectl(wait).exit_code == 0; });
}

}  // namespace compilecache::testing
