#pragma once

#include <string>

#include "operator/settings/settings.hpp"
#include "webhook/settings.hpp"

// Makes the injection's settings from the settings file and from where the operator runs. Pure.

namespace compilecache::controller {

// `ns`: the operator's; its own pods are never injected. `image`: of loader and saver.
webhook::InjectionSettings injection_settings(const Settings& settings, const std::string& ns,
                                              const std::string& image);

}  // namespace compilecache::controller
