#pragma once

#include <string>
#include <vector>

#include "tests/e2e/sandbox.hpp"
#include "tests/support/process.hpp"

// The operator as administrators install and remove it. All tests of the cluster share it, so who
// removes it brings back the one of manifest_file().

namespace compilecache::e2e {

// The manifest by which the operator is installed.
std::string manifest_file();

// Applies it and waits for a leader. In 0.1 there is no registry.
void install(const std::string& manifest);
// Deletes all that the manifest has, with the CompileCaches, and frees the registry's volume.
void uninstall(const std::string& manifest);

// The release that tests make of the chart.
inline constexpr char kRelease[] = "compile-cache";
// In the operator's namespace.
testing::ProcessResult helm(std::vector<std::string> arguments);
// Uninstalls that release, if there is one, and removes the namespace; CustomResourceDefinitions
// and their objects stay.
void remove_release();

// As an administrator gives a volume to a new claim. Without the registry there is none.
void free_registry_volume();
// Until the registry that manifest_file() installs is ready.
void wait_for_registry();

}  // namespace compilecache::e2e
