#include "operator/settings/injection_settings.hpp"

#include "base/release.hpp"

#include "api/names.hpp"

namespace compilecache::controller {
namespace {

webhook::ResourceList or_default(const std::map<std::string, std::string>& given,
                                 const webhook::ResourceList& otherwise) {
  return given.empty() ? otherwise : given;
}

}  // namespace

webhook::InjectionSettings injection_settings(const Settings& settings, const std::string& ns,
                                              const std::string& image) {
  webhook::InjectionSettings made;
  made.version = release();
  made.image = image;
  made.excluded_namespaces.push_back(ns);
  made.agent_address = settings.agent.address;
  made.agent_port = settings.agent.port;
  made.agent_name = std::string(api::kAgentService) + "." + ns + ".svc";
  made.index_fallback = settings.agent.index_fallback;
  made.first_quiet_period = settings.save.first_quiet_period;
  made.gpu_resources = settings.gpu_resources;
  made.harmless_resources = settings.harmless_resources;
  made.loader_requests = or_default(settings.resources.loader.requests, made.loader_requests);
  made.loader_limits = or_default(settings.resources.loader.limits, made.loader_limits);
  made.saver_requests = or_default(settings.resources.saver.requests, made.saver_requests);
  made.saver_limits = or_default(settings.resources.saver.limits, made.saver_limits);
  made.frameworks = settings.frameworks;
  made.traps = settings.traps;
  return made;
}

}  // namespace compilecache::controller
