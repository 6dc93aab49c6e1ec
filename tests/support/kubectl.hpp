#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

// kubectl as a user would call it, for tests on a real API server. The program is $KUBECTL (else
// the one on the PATH), the cluster $KUBECONFIG.

namespace compilecache::testing {

ProcessResult kubectl(const std::vector<std::string>& arguments, const std::string& input = "",
                      std::chrono::seconds limit = std::chrono::seconds(120));

// `kubectl get ... -o json`; null when there is no such object.
nlohmann::json get_json(const std::vector<std::string>& arguments);

// Applies the objects; the error text, empty when all went well.
std::string apply(const nlohmann::json& object);

// The value at a JSON pointer, or null.
nlohmann::json at(const nlohmann::json& object, const std::string& pointer);

// Asks again every half second until the predicate holds or the time is over.
bool eventually(std::chrono::seconds limit, const std::function<bool()>& predicate);

// Waits until the CustomResourceDefinitions of these names are served; whether they are.
bool are_established(const std::vector<std::string>& crds);

}  // namespace compilecache::testing
