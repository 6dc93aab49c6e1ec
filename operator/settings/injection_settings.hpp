#pragma once

#include <string>

#include "operator/settings/settings.hpp"
#include "webhook/settings.hpp"

// What the injection needs of the settings file, and of where the operator runs. Pure.

namespace compilecache::controller {

// `ns`: the operator's; its own pods are never injected. `image`: of loader and saver.
webhook::InjectionSettings injection_settings(const Settings& settings, const std::string& ns,
                                              const std::string& image);

}  // namespace compilecache::controller
