#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "webhook/injection.hpp"

// One folder of tests/testdata/injection; its README says what is in it.

namespace compilecache::webhook::testing {

struct Injected {
  std::optional<nlohmann::json> pod;  // nothing: it stays as it is
  nlohmann::json patch;               // RFC 6902
  InjectionReport report;
};

struct GoldenCase {
  std::string folder;
  std::string ns = "ml";
  nlohmann::json pod;
  bool is_large = false;  // its result is kept as a patch
  std::optional<api::CompileCache> cache;
  NamespaceFacts facts;
  InjectionSettings settings;

  [[nodiscard]] Injected run(const nlohmann::json& on_pod) const;
};

std::vector<std::string> golden_case_names();
GoldenCase load_golden_case(const std::string& name);

nlohmann::json to_json(const InjectionReport& report);

// Objects of `whole` contain at least what is in `part`; arrays contain its items in their order.
bool contains_in_order(const nlohmann::json& whole, const nlohmann::json& part);

// With CC_UPDATE_GOLDEN set, expected files are written instead of compared.
bool updating_golden();
std::optional<nlohmann::json> read_json(const std::string& path);
void write_json(const std::string& path, const nlohmann::json& value);

}  // namespace compilecache::webhook::testing
