#include "cli/inject/inject_command.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "api/names.hpp"
#include "base/release.hpp"
#include "cli/inject/inject_manifests.hpp"
#include "cli/text/complaint.hpp"
#include "cli/text/manifest_files.hpp"
#include "cli/text/shipped_settings.hpp"
#include "operator/certificates/x509.hpp"
#include "operator/settings/injection_settings.hpp"
#include "operator/settings/settings.hpp"

namespace compilecache::cli {
namespace {

constexpr int kComplete = 0, kSkippedSome = 1, kUnreadable = 2;

// A reference as container runtimes read it: host, path, tag, digest.
bool is_image(const std::string& text) {
  constexpr size_t kLongest = 512;
  static const std::regex reference(
      "[A-Za-z0-9]+([._-]+[A-Za-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
      "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?");
  return text.size() <= kLongest && std::regex_match(text, reference);
}

bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

// "10.96.0.7:5000", "[fd00::7]:5000"
bool is_address_and_port(const std::string& text) {
  static const std::regex parts(R"((?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):[0-9]{1,5})");
  std::smatch found;
  return text.size() < 64 && std::regex_match(text, found, parts) &&
         is_address(found[1].matched ? found[1] : found[2]);
}

// As the operator finds it, see operator/cluster/own_registry.hpp.
api::OwnRegistry own_registry(const InjectOptions& options) {
  const std::string& address = options.registry_address;
  if (address.empty()) return {};
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon);
  return {std::string(api::kRegistryService) + "." + options.operator_namespace + ".svc" + port,
          address};
}

// Faults that would otherwise show only in pods.
Status check(const webhook::InjectionSettings& settings) {
  if (!is_image(settings.image)) {
    return fail(ErrorCode::kInvalid, "--agent-image: \"" + settings.image +
                                         "\" is no image; write it like "
                                         "registry.example/compilecache:0.2.0");
  }
  if (!settings.agent_address.empty() && !is_address(settings.agent_address)) {
    return fail(ErrorCode::kInvalid,
                "--agent-address: \"" + settings.agent_address +
                    "\" is no IP address; agents look up no names: give the ClusterIP of the "
                    "Service compilecache-agent-api");
  }
  const std::string& registry = settings.own_registry.address;
  if (!registry.empty() && !is_address_and_port(registry)) {
    return fail(ErrorCode::kInvalid, "--registry-address: \"" + registry +
                                         "\" is no IP address and port; give those of the Service "
                                         "compilecache-registry, like 10.96.0.7:5000");
  }
  if (!settings.agent_ca.empty() && !controller::is_certificate_list(settings.agent_ca)) {
    return fail(ErrorCode::kInvalid,
                "--agent-ca: the file holds no PEM certificate; give ca.crt of the operator");
  }
  return {};
}

Result<controller::Settings> settings_of(const std::string& file) {
  constexpr char kOperators[] = "/etc/compilecache/settings.yaml";
  if (!file.empty()) return controller::load_settings(file);
  if (::access(kOperators, F_OK) == 0) return controller::load_settings(kOperators);
  return controller::parse_settings(shipped_settings(), "the settings");
}

Result<webhook::InjectionSettings> read_settings(const InjectOptions& options) {
  auto settings = settings_of(options.settings);
  if (!settings) return unexpected(settings.error());
  if (!options.agent_address.empty()) settings->agent.address = options.agent_address;
  std::string image = options.image.empty() ? settings->agent_image : options.image;
  if (image.empty()) image = std::string(image_repository()) + ":" + release();
  auto made = controller::injection_settings(*settings, options.operator_namespace, image);
  made.own_registry = own_registry(options);
  if (!options.agent_ca_file.empty()) {
    auto ca = read_text(options.agent_ca_file, std::cin);
    if (!ca) return unexpected(ca.error());
    if (ca->empty()) return fail(ErrorCode::kInvalid, "--agent-ca: the file is empty");
    made.agent_ca = std::move(*ca);
  }
  if (const Status good = check(made); !good) return unexpected(good.error());
  return made;
}

Result<InjectedManifests> injected(const InjectOptions& options, std::istream& in) {
  ManifestInput input;
  input.ns = options.ns;
  auto settings = read_settings(options);
  if (!settings) return unexpected(settings.error());
  input.settings = std::move(*settings);
  auto files = read_files(options.files, in);
  if (!files) return unexpected(files.error());
  input.files = std::move(*files);
  auto caches = read_files(options.caches, in);
  if (!caches) return unexpected(caches.error());
  input.caches = std::move(*caches);
  return inject_manifests(input);
}

}  // namespace

int run_inject(const InjectOptions& options, std::istream& in, std::ostream& out,
               std::ostream& reports) {
  const auto result = injected(options, in);
  if (!result) {
    return complain(result.error(), reports, kUnreadable);
  }
  const char* separator = "";
  for (const Manifest& document : result->documents) {
    out << std::exchange(separator, "---\n") << write_manifest(document);
  }
  for (const TemplateReport& report : result->reports) reports << text_of(report);
  if (result->reports.empty()) {
    reports << "No pod template has the annotation compilecache.dev/cache.\n";
  }
  return result->complete() ? kComplete : kSkippedSome;
}

}  // namespace compilecache::cli
