#include "webhook/read_json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace compilecache::webhook {

namespace {

using rapidjson::SizeType;

constexpr size_t kMaxDepth = 100;
constexpr size_t kMaxValues = 500'000;

// A number in JSON's grammar; none: a T does not hold it.
template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Stands between the reader and the tree that it builds: counts, and leaves out.
class Filter : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Filter> {
 public:
  Filter(JsonDocument& tree, bool of_review) : tree_(tree), of_review_(of_review) {}

  bool Null() {
    return pass([&] { return tree_.Null(); });
  }
  bool Bool(bool value) {
    return pass([&] { return tree_.Bool(value); });
  }
  bool RawNumber(const char* text, SizeType size, bool /*copy*/) {
    return pass([&, digits = std::string_view(text, size)] {
      if (const auto value = number<int64_t>(digits)) return tree_.Int64(*value);
      if (const auto value = number<uint64_t>(digits)) return tree_.Uint64(*value);
      if (const auto value = number<double>(digits)) return tree_.Double(*value);
      return refuse("it holds a number that no double can hold");
    });
  }
  bool String(const char* text, SizeType size, bool copy) {
    return pass([&] { return tree_.String(text, size, copy); });
  }

  bool StartObject() {
    return open([&] {
      kept_.push_back(0);
      return tree_.StartObject();
    });
  }
  bool EndObject(SizeType /*size*/) {
    return close([&] {
      const SizeType size = kept_.back();
      kept_.pop_back();
      return tree_.EndObject(size);
    });
  }
  bool StartArray() {
    return open([&] { return tree_.StartArray(); });
  }
  bool EndArray(SizeType size) {
    return close([&] { return tree_.EndArray(size); });
  }

  bool Key(const char* text, SizeType size, bool copy) {
    if (skipped_from_ != 0) return true;
    const std::string_view name(text, size);
    if (of_review_ && depth_ < path_.size()) path_[depth_] = name;
    skip_next_ = of_review_ && is_unneeded(name);
    if (skip_next_) return true;
    ++kept_.back();
    return tree_.Key(text, size, copy);
  }

  // Why it was refused; empty: the reader itself found something.
  [[nodiscard]] std::string_view problem() const { return problem_; }

 private:
  // Decides by the names on the way alone: members of these names in other places are not needed
  // either.
  [[nodiscard]] bool is_unneeded(std::string_view name) const {
    if (depth_ == 2) {
      return path_[1] == "request" &&
             (name == "oldObject" || name == "userInfo" || name == "options");
    }
    return depth_ == 4 && name == "managedFields" && path_[3] == "metadata" &&
           path_[2] == "object" && path_[1] == "request";
  }

  template <typename Add>
  bool pass(const Add& add) {
    if (!count()) return false;
    if (skipped_from_ != 0 || std::exchange(skip_next_, false)) return true;
    return add();
  }

  template <typename Open>
  bool open(const Open& open_in_tree) {
    if (!count()) return false;
    if (++depth_ > kMaxDepth) return refuse("it is nested too deeply");
    if (skipped_from_ != 0) return true;
    if (std::exchange(skip_next_, false)) {
      skipped_from_ = depth_;
      return true;
    }
    return open_in_tree();
  }

  template <typename Close>
  bool close(const Close& close_in_tree) {
    const size_t depth = depth_--;
    if (skipped_from_ == 0) return close_in_tree();
    if (skipped_from_ == depth) skipped_from_ = 0;
    return true;
  }

  bool count() { return ++values_ <= kMaxValues || refuse("it holds too many values"); }

  bool refuse(std::string_view why) {
    problem_ = why;
    return false;
  }

  JsonDocument& tree_;
  const bool of_review_;
  std::vector<SizeType> kept_;       // members of each open object that are in the tree
  std::array<std::string, 4> path_;  // names of the members that are open, by depth
  size_t depth_ = 0;
  size_t skipped_from_ = 0;  // depth of the container that is left out; 0: none
  size_t values_ = 0;
  bool skip_next_ = false;
  std::string_view problem_;
};

// Ends the reading once the uid has come; builds nothing.
class UidFinder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, UidFinder> {
 public:
  bool Default() { return take({}); }
  bool RawNumber(const char* /*text*/, SizeType /*size*/, bool /*copy*/) { return Default(); }
  bool String(const char* text, SizeType size, bool /*copy*/) { return take({text, size}); }
  bool Key(const char* text, SizeType size, bool /*copy*/) {
    const std::string_view name(text, size);
    if (depth_ == 1) in_request_ = name == "request";
    is_uid_ = depth_ == 2 && in_request_ && name == "uid";
    return true;
  }
  bool StartObject() { return open(); }
  bool EndObject(SizeType /*size*/) { return close(); }
  bool StartArray() { return open(); }
  bool EndArray(SizeType /*size*/) { return close(); }

  std::string uid;

 private:
  bool take(std::string_view text) {
    if (!is_uid_) return true;
    uid = text;
    return false;
  }
  bool open() {
    is_uid_ = false;
    return ++depth_ <= kMaxDepth;
  }
  bool close() {
    --depth_;
    return true;
  }

  size_t depth_ = 0;
  bool in_request_ = false;
  bool is_uid_ = false;
};

// Whether a character that begins in the last two bytes needs bytes beyond them.
bool ends_within_a_character(std::string_view text) {
  constexpr unsigned char kFirstOfThreeBytes = 0xE0;
  const auto last = text.substr(text.size() - std::min<size_t>(text.size(), 2));
  return std::any_of(last.begin(), last.end(), [](char byte) {
    return static_cast<unsigned char>(byte) >= kFirstOfThreeBytes;
  });
}

Result<JsonDocument> read(const std::string& text, bool of_review, JsonMemory* memory) {
  const auto invalid = [](std::string_view why) {
    return fail(ErrorCode::kInvalid, "reading the JSON: " + std::string(why));
  };
  // The reader would take it for the end of the text.
  if (text.find('\0') != std::string::npos) return invalid("it holds a byte that is zero");
  // The reader would look for the rest beyond the zero that ends the text.
  if (ends_within_a_character(text)) return invalid("it ends within a character");
  JsonDocument tree(memory);
  Filter filter(tree, of_review);
  rapidjson::ParseResult result;
  const auto build = [&](JsonDocument&) {
    rapidjson::StringStream stream(text.c_str());
    rapidjson::Reader reader;
    // Numbers as text: from there to a double, release 1.1.0 counts the zeros before a 0 and
    // overflows its exponents.
    result =
        reader.Parse<rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag>(
            stream, filter);
    return !result.IsError();
  };
  tree.Populate(build);
  if (!result.IsError()) return tree;
  if (!filter.problem().empty()) return invalid(filter.problem());
  return invalid(std::string(rapidjson::GetParseError_En(result.Code())) + " At byte " +
                 std::to_string(result.Offset()) + ".");
}

}  // namespace

Result<JsonDocument> read_json(const std::string& text) { return read(text, false, nullptr); }

Result<JsonDocument> read_review(const std::string& text, JsonMemory& memory) {
  return read(text, true, &memory);
}

std::string read_review_uid(const std::string& text) {
  if (ends_within_a_character(text)) return {};
  rapidjson::StringStream stream(text.c_str());
  rapidjson::Reader reader;
  UidFinder finder;
  // Its error is how the finder ends it, or what is no review.
  (void)reader.Parse<rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag>(
      stream, finder);
  return std::move(finder.uid);
}

}  // namespace compilecache::webhook
