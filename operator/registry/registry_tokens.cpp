#include "operator/registry/registry_tokens.hpp"

namespace compilecache::controller {

TokenGrant grant_token(const TokenFacts& facts) {
  if (facts.sweeper) return {{"pull", "push", "delete"}, ""};
  if (!facts.push) return {{"pull"}, ""};
  const std::string& why = facts.may_not_save.empty() ? facts.over_quota : facts.may_not_save;
  if (!why.empty()) return {{"pull"}, why};
  return {{"pull", "push"}, ""};  // an upload cannot begin without both
}

std::string own_repository(const std::string& ns, const std::string& cache) {
  return ns + "/" + cache;
}

}  // namespace compilecache::controller
