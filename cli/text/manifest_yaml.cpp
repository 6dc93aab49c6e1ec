#include "cli/text/manifest_yaml.hpp"

#include <yaml-cpp/yaml.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace compilecache::cli {
namespace {

// Far deeper than any manifest; conversion recurses.
constexpr int kMaxDepth = 100;
// With aliases a small file can stand for a huge one.
constexpr size_t kMaxNodes = 200'000;

struct TooLarge : std::exception {
  [[nodiscard]] const char* what() const noexcept override {
    return "nested too deeply, or its aliases stand for too much";
  }
};

std::optional<bool> boolean(std::string_view text) {
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

bool is_null(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

// Digits in the base that their prefix says: 0x1F, 0b11, 0o17, and 017 as YAML 1.1 has it.
std::optional<Manifest> integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0o") || text.starts_with("0b")) {
    base = text[1] == 'x' ? 16 : text[1] == 'o' ? 8 : 2;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.starts_with('0')) {
    base = 8;
    text.remove_prefix(1);
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!negative) return Manifest(value);
  constexpr uint64_t kLowest = uint64_t{1} << 63U;
  if (value > kLowest) return std::nullopt;
  return Manifest(static_cast<int64_t>(~value + 1));
}

std::optional<Manifest> real(std::string_view text) {
  if (text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return std::nullopt;
  if (text.find_first_of("0123456789") == std::string_view::npos) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return Manifest(value);
}

Manifest plain_scalar(const std::string& text) {
  if (is_null(text)) return nullptr;
  if (const auto value = boolean(text)) return *value;
  if (auto value = integer(text)) return std::move(*value);
  if (auto value = real(text)) return std::move(*value);
  return text;
}

class Converter {
 public:
  Manifest convert(const YAML::Node& node, int depth = 0) {
    if (depth > kMaxDepth || ++nodes_ > kMaxNodes) throw TooLarge();
    if (node.IsMap()) return map(node, depth);
    if (node.IsSequence()) {
      Manifest array = Manifest::array();
      for (const auto& item : node) array.push_back(convert(item, depth + 1));
      return array;
    }
    if (!node.IsScalar()) return nullptr;
    // Quoted and block scalars have the tag "!".
    const bool text = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
    return text ? Manifest(node.Scalar()) : plain_scalar(node.Scalar());
  }

 private:
  Manifest map(const YAML::Node& node, int depth) {
    Manifest object = Manifest::object();
    std::vector<Manifest> merged;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        throw YAML::RepresentationException(entry.first.Mark(), "a key must be a text");
      }
      const std::string& key = entry.first.Scalar();
      Manifest value = convert(entry.second, depth + 1);
      if (key == "<<" && entry.first.Tag() != "!") {
        if (value.is_array()) merged.insert(merged.end(), value.begin(), value.end());
        if (value.is_object()) merged.push_back(std::move(value));
        continue;
      }
      if (object.contains(key)) {
        throw YAML::RepresentationException(entry.first.Mark(),
                                            "the key " + key + " is there twice");
      }
      object[key] = std::move(value);
    }
    // A value written here counts, then the first that has it.
    for (const Manifest& from : merged) {
      for (const auto& [key, value] : from.items()) {
        if (!object.contains(key)) object[key] = value;
      }
    }
    return object;
  }

  size_t nodes_ = 0;
};

// Whether a literal block gives exactly this text back, whatever emits and reads it.
bool fits_a_block(const std::string& text) {
  if (text.size() < 2 || !text.ends_with('\n') || text.ends_with("\n\n")) return false;
  if (text.find('\n') == text.size() - 1 || text.front() == ' ' || text.front() == '\n') {
    return false;
  }
  for (const char c : text) {
    if (c != '\n' && static_cast<unsigned char>(c) < 0x20) return false;
  }
  return true;
}

bool has_control_characters(const std::string& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return true;
  }
  return false;
}

// Without quotes only what every reader of YAML takes for a text. YAML 1.1 also has 12:30:45,
// 1_000, .inf, y and n: no text that begins like a number, or is so short, is left to taste.
bool is_safe_plain(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@= ";
  if (text == "y" || text == "Y" || text == "n" || text == "N") return false;
  if (!plain_scalar(text).is_string()) return false;
  const bool option = text.starts_with('-');
  const size_t first = option ? text.find_first_not_of('-') : 0;
  if (first == std::string::npos) return false;
  const bool word = std::isalpha(static_cast<unsigned char>(text[first])) != 0;
  return (word || (text[first] == '/' && !option)) &&
         text.find_first_not_of(kPlain) == std::string::npos &&
         text.find(": ") == std::string::npos && text.back() != ':' && text.back() != ' ';
}

void emit_line(YAML::Emitter& out, const std::string& text) {
  if (has_control_characters(text)) {
    out << YAML::DoubleQuoted << text;
  } else if (is_safe_plain(text)) {
    out << text;
  } else {
    out << YAML::SingleQuoted << text;
  }
}

void emit_text(YAML::Emitter& out, const std::string& text) {
  if (fits_a_block(text)) {
    out << YAML::Literal << text;
  } else {
    emit_line(out, text);
  }
}

void emit(YAML::Emitter& out, const Manifest& value) {
  if (value.is_object()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, item] : value.items()) {
      out << YAML::Key;
      emit_line(out, key);
      out << YAML::Value;
      emit(out, item);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const Manifest& item : value) emit(out, item);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    emit_text(out, value.get_ref<const std::string&>());
  } else if (value.is_null()) {
    out << YAML::Null;
  } else {
    out << value.dump();
  }
}

// Copying or writing a tree recurses, so it is not even built.
bool is_nested_too_deeply(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

bool looks_like_json(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

}  // namespace

Result<std::vector<Manifest>> read_manifests(const std::string& text,
                                             const std::string& file_name) {
  // YAML's flow style looks alike, so what is no JSON may still be that.
  if (looks_like_json(text)) {
    if (is_nested_too_deeply(text)) {
      return fail(ErrorCode::kInvalid,
                  "reading the manifests in " + file_name + ": nested too deeply");
    }
    Manifest document = Manifest::parse(text, nullptr, false);
    if (!document.is_discarded()) return std::vector<Manifest>{std::move(document)};
  }
  try {
    std::vector<Manifest> documents;
    // kubectl reads by lines and ends each: a block scalar has its last newline also where the file
    // has none.
    for (const YAML::Node& node : YAML::LoadAll(text.ends_with('\n') ? text : text + "\n")) {
      Manifest document = Converter().convert(node);
      (void)document.dump();  // throws for what is no UTF-8
      if (!document.is_null()) documents.push_back(std::move(document));
    }
    return documents;
  } catch (const YAML::Exception& exception) {
    return fail(ErrorCode::kInvalid, "reading the manifests in " + file_name + ", line " +
                                         std::to_string(exception.mark.line + 1) + ": " +
                                         exception.msg);
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInvalid,
                "reading the manifests in " + file_name + ": " + exception.what());
  }
}

std::string write_manifest(const Manifest& manifest) {
  YAML::Emitter out;
  out.SetIndent(2);
  emit(out, manifest);
  return std::string(out.c_str()) + "\n";
}

}  // namespace compilecache::cli
