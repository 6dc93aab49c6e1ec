#include "base/checked_json.hpp"

#include <new>

namespace compilecache {
namespace {

using Json = nlohmann::json;

constexpr size_t kReasonBytes = 200;

// Counts, and keeps nothing.
class Counter : public nlohmann::json_sax<Json> {
 public:
  explicit Counter(size_t most) : left_(most) {}

  [[nodiscard]] const Error& problem() const { return problem_; }

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t&) override { return count(); }
  bool start_object(std::size_t) override { return deeper() && count(); }
  bool start_array(std::size_t) override { return deeper() && count(); }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& problem) override {
    return stop(ErrorCode::kCorrupt, short_reason(problem.what()));
  }

 private:
  bool count() {
    return left_-- > 0 || stop(ErrorCode::kTooLarge, "it has more values than are accepted");
  }
  bool deeper() {
    return ++depth_ <= kMaxJsonDepth || stop(ErrorCode::kCorrupt, "nested too deeply");
  }
  bool stop(ErrorCode code, std::string why) {
    problem_ = {code, std::move(why)};
    return false;
  }

  size_t left_;
  int depth_ = 0;
  Error problem_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& what, size_t max_values) {
  const auto unusable = [&](const Error& why) {
    return unexpected(why.with(what + " is not usable JSON"));
  };
  try {
    Counter counter(max_values);
    if (!Json::sax_parse(text, &counter)) return unusable(counter.problem());
    return Json::parse(text);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kInternal, "reading " + what + ": there is no memory for it");
  } catch (const std::exception& problem) {
    return unusable({ErrorCode::kCorrupt, short_reason(problem.what())});
  }
}

std::string short_reason(std::string_view words) {
  std::string reason(words.substr(0, kReasonBytes));
  for (char& c : reason) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) c = '?';
  }
  return words.size() > kReasonBytes ? reason + "..." : reason;
}

std::optional<std::string> string_member(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<uint64_t> number_member(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<uint64_t>();
}

}  // namespace compilecache
