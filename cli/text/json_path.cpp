#include "cli/text/json_path.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/printable.hpp"
#include "base/strings.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using Values = std::vector<const json*>;

tl::unexpected<Error> refuse(const std::string& text, const std::string& why) {
  return fail(ErrorCode::kInvalid, "jsonpath \"" + text + "\": " + why);
}

std::string text_of(const json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_null()) return "";
  return printable_json(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

Values children(const Values& values) {
  Values all;
  for (const json* value : values) {
    if (!value->is_structured()) continue;
    for (const json& child : *value) all.push_back(&child);
  }
  return all;
}

Values named(const Values& values, const std::string& name) {
  Values found;
  for (const json* value : values) {
    const auto member = value->is_object() ? value->find(name) : value->end();
    if (value->is_object() && member != value->end()) found.push_back(&*member);
  }
  return found;
}

Values with_descendants(const Values& values) {
  Values all = values;
  for (Values below = children(values); !below.empty(); below = children(below)) {
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Elements from `first` to before `last`, both counted from the end where they are below zero.
Values slice(const Values& values, int first, std::optional<int> last) {
  Values found;
  for (const json* value : values) {
    if (!value->is_array()) continue;
    const int size = static_cast<int>(value->size());
    const auto place = [size](int index) { return index < 0 ? index + size : index; };
    const int end = std::min(size, last ? place(*last) : size);
    for (int i = std::max(0, place(first)); i < end; ++i) found.push_back(&(*value)[i]);
  }
  return found;
}

bool is_quoted(std::string_view text) {
  return text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
         text.back() == text.front();
}

std::string unquoted(std::string_view text) {
  std::string plain;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 2 < text.size();
    if (!escaped) {
      plain += text[i];
      continue;
    }
    const char code = text[++i];
    plain += code == 'n' ? '\n' : code == 't' ? '\t' : code;
  }
  return plain;
}

// The place of the bracket that closes the one at `open`, with quotes in between left out.
size_t closing(std::string_view text, size_t open) {
  char quote = 0;
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '{' || c == '(') {
      ++depth;
    } else if ((c == ']' || c == '}' || c == ')') && --depth == 0) {
      return i;
    }
  }
  return std::string_view::npos;
}

Result<Values> follow(const json& root, std::string_view path);

// One side of a filter's comparison; nothing: it is a path that leads nowhere.
Result<std::optional<json>> operand(const json& item, std::string_view text) {
  if (is_quoted(text)) return json(unquoted(text));
  if (text.starts_with('@') || text.starts_with('.')) {
    const auto values = follow(item, text);
    if (!values) return unexpected(values.error());
    return values->empty() ? std::optional<json>() : *values->front();
  }
  json literal = json::parse(text, nullptr, false);
  if (literal.is_discarded()) return refuse(std::string(text), "is neither a path nor a value");
  return literal;
}

Result<bool> holds(const json& item, std::string_view condition) {
  for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
    const size_t at = condition.find(sign);
    if (at == std::string_view::npos) continue;
    const auto left = operand(item, trim(condition.substr(0, at)));
    const auto right = operand(item, trim(condition.substr(at + sign.size())));
    if (!left) return unexpected(left.error());
    if (!right) return unexpected(right.error());
    if (!*left || !*right) return false;
    if (sign == "==") return **left == **right;
    if (sign == "!=") return **left != **right;
    if (sign == "<=") return **left <= **right;
    if (sign == ">=") return **left >= **right;
    return sign == "<" ? **left < **right : **left > **right;
  }
  const auto there = operand(item, trim(condition));
  if (!there) return unexpected(there.error());
  return there->has_value();
}

Result<Values> bracket(const Values& values, std::string_view inside) {
  inside = trim(inside);
  if (inside == "*") return children(values);
  if (is_quoted(inside)) return named(values, unquoted(inside));
  if (inside.starts_with("?(") && inside.ends_with(')')) {
    const std::string_view condition = inside.substr(2, inside.size() - 3);
    // Also of an empty list, so that a mistake shows before there is something to print.
    if (const auto readable = holds(json(), condition); !readable) {
      return unexpected(readable.error());
    }
    Values found;
    for (const json* item : children(values)) {
      const auto kept = holds(*item, condition);
      if (!kept) return unexpected(kept.error());
      if (*kept) found.push_back(item);
    }
    return found;
  }
  const size_t colon = inside.find(':');
  const auto first = number(trim(inside.substr(0, colon)));
  if (colon != std::string_view::npos) {
    const auto last = number(trim(inside.substr(colon + 1)));
    return slice(values, first.value_or(0), last);
  }
  if (!first) return refuse(std::string(inside), "is no index, name, * or filter");
  return slice(values, *first, *first == -1 ? std::nullopt : std::optional(*first + 1));
}

// ".name", with "\." for a dot in it, or ".*". Takes it off the path.
Result<Values> member(const Values& values, std::string_view& path) {
  std::string name;
  size_t i = 0;
  for (; i < path.size() && path[i] != '.' && path[i] != '['; ++i) {
    if (path[i] == '\\' && i + 1 < path.size()) ++i;
    name += path[i];
  }
  path.remove_prefix(i);
  if (name.empty()) return values;
  return name == "*" ? children(values) : named(values, name);
}

Result<Values> follow(const json& root, std::string_view path) {
  const std::string whole(path);
  Result<Values> values = Values{&root};
  if (path.starts_with('$') || path.starts_with('@')) path.remove_prefix(1);
  while (values && !path.empty()) {
    if (path.starts_with("..")) {
      path.remove_prefix(2);
      values = member(with_descendants(*values), path);
    } else if (path.front() == '.') {
      path.remove_prefix(1);
      values = member(*values, path);
    } else if (path.front() == '[') {
      const size_t close = closing(path, 0);
      if (close == std::string_view::npos) return refuse(whole, "a ] is missing");
      values = bracket(*values, path.substr(1, close - 1));
      path.remove_prefix(close + 1);
    } else {
      return refuse(whole, "a path begins with . or [");
    }
  }
  return values;
}

struct Piece {
  bool code = false;
  std::string text;
};

Result<std::vector<Piece>> pieces_of(const std::string& text) {
  std::vector<Piece> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('{', at);
    if (open != at) pieces.push_back({false, text.substr(at, open - at)});
    if (open == std::string::npos) break;
    const size_t close = closing(text, open);
    if (close == std::string::npos) return refuse(text, "a } is missing");
    pieces.push_back({true, std::string(trim(text.substr(open + 1, close - open - 1)))});
    at = close + 1;
  }
  return pieces;
}

// Fills a template piece by piece.
class Template {
 public:
  explicit Template(const std::vector<Piece>& pieces) : pieces_(pieces) {}

  // From that piece to the {end} of its range, or to the end of all; the place behind it.
  Result<size_t> fill(size_t at, const json& item, int depth, std::string& out) const {
    while (at < pieces_.size()) {
      const Piece& piece = pieces_[at];
      if (piece.code && piece.text == "end") {
        if (depth == 0) return refuse("{end}", "there is no {range} before it");
        return at + 1;
      }
      if (piece.code && piece.text.starts_with("range")) {
        const auto next = repeat(at, item, depth, out);
        if (!next) return next;
        at = *next;
        continue;
      }
      if (auto added = add(piece, item, out); !added) return unexpected(added.error());
      ++at;
    }
    if (depth > 0) return refuse("{range}", "an {end} is missing");
    return at;
  }

 private:
  static Status add(const Piece& piece, const json& item, std::string& out) {
    if (!piece.code) {
      out += piece.text;
      return {};
    }
    if (is_quoted(piece.text)) {
      out += unquoted(piece.text);
      return {};
    }
    const auto values = follow(item, piece.text);
    if (!values) return unexpected(values.error());
    for (size_t i = 0; i < values->size(); ++i) {
      out += (i == 0 ? "" : " ") + text_of(*(*values)[i]);
    }
    return {};
  }

  [[nodiscard]] Result<size_t> repeat(size_t at, const json& item, int depth,
                                      std::string& out) const {
    constexpr size_t kRange = 5;
    const auto values = follow(item, trim(std::string_view(pieces_[at].text).substr(kRange)));
    if (!values) return unexpected(values.error());
    std::string ignored;
    auto next = fill(at + 1, json(), depth + 1, ignored);
    for (const json* value : *values) {
      if (!next) break;
      next = fill(at + 1, *value, depth + 1, out);
    }
    return next;
  }

  const std::vector<Piece>& pieces_;
};

}  // namespace

Result<std::string> json_path(const json& value, const std::string& text) {
  Result<std::vector<Piece>> pieces = std::vector<Piece>{{true, text}};
  if (text.find('{') != std::string::npos) pieces = pieces_of(text);
  if (!pieces) return unexpected(pieces.error());
  std::string out;
  if (const auto filled = Template(*pieces).fill(0, value, 0, out); !filled)
    return unexpected(filled.error());
  return out;
}

}  // namespace compilecache::cli
