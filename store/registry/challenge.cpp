#include "store/registry/challenge.hpp"

#include <algorithm>
#include <cctype>

namespace compilecache::store {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  std::vector<Challenge> run() {
    while (skip_separators()) {
      const std::string_view word = take_word();
      if (word.empty()) {
        rest_.remove_prefix(1);  // not a token: what follows may be
        continue;
      }
      skip_spaces();
      if (!rest_.empty() && rest_.front() == '=') {
        rest_.remove_prefix(1);
        skip_spaces();
        std::string value = take_value();
        if (!found_.empty()) found_.back().parameters[lower(word)] = std::move(value);
      } else {
        found_.push_back({lower(word), {}});
      }
    }
    return std::move(found_);
  }

 private:
  static bool is_token(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~/").find(c) != std::string_view::npos;
  }

  void skip_spaces() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }
  // False at the end.
  bool skip_separators() {
    const size_t begin = rest_.find_first_not_of(" \t,");
    rest_.remove_prefix(std::min(begin, rest_.size()));
    return !rest_.empty();
  }

  std::string_view take_word() {
    size_t length = 0;
    while (length < rest_.size() && is_token(rest_[length])) ++length;
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return word;
  }

  std::string take_value() {
    if (rest_.empty() || rest_.front() != '"') return std::string(take_word());
    rest_.remove_prefix(1);
    std::string value;
    while (!rest_.empty() && rest_.front() != '"') {
      if (rest_.front() == '\\' && rest_.size() > 1) rest_.remove_prefix(1);
      value += rest_.front();
      rest_.remove_prefix(1);
    }
    if (!rest_.empty()) rest_.remove_prefix(1);
    return value;
  }

  std::string_view rest_;
  std::vector<Challenge> found_;
};

}  // namespace

std::string Challenge::parameter(const std::string& name) const {
  const auto found = parameters.find(name);
  return found == parameters.end() ? "" : found->second;
}

std::vector<Challenge> parse_challenges(std::string_view field) { return Parser(field).run(); }

std::vector<Challenge> challenges_of(const http::Headers& headers) {
  std::vector<Challenge> all;
  for (const auto& [name, value] : headers) {
    if (lower(name) != "www-authenticate") continue;
    for (Challenge& challenge : parse_challenges(value)) all.push_back(std::move(challenge));
  }
  return all;
}

}  // namespace compilecache::store
