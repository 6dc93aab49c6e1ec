#include "webhook/review.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace compilecache::webhook {

using nlohmann::json;

namespace {

// Far deeper than any pod; nlohmann copies and prints by recursion.
constexpr size_t kMaxDepth = 100;
constexpr size_t kMaxValues = 500'000;

// Builds the tree from the parser's events.
class ReviewBuilder {
 public:
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return add(value); }
  bool number_float(json::number_float_t value, const std::string& /*text*/) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(json::binary_t& /*value*/) { return false; }  // there is none in text

  bool start_object(size_t /*size*/) { return open(json::value_t::object); }
  bool start_array(size_t /*size*/) { return open(json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (skipped_from_ != 0) return true;
    if (depth_ < path_.size()) path_[depth_] = name;
    skip_next_ = is_unneeded(name);
    if (!skip_next_) slot_ = &open_.back()->get_ref<json::object_t&>()[std::move(name)];
    return true;
  }

  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const json::exception& error) {
    problem_ = error.what();
    return false;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  json take() { return std::move(root_); }

 private:
  // By the names on the way, which are right where the shape is: what lies elsewhere under such
  // names is nothing that is asked for either.
  [[nodiscard]] bool is_unneeded(const std::string& name) const {
    if (depth_ == 2) {
      return path_[1] == "request" &&
             (name == "oldObject" || name == "userInfo" || name == "options");
    }
    return depth_ == 4 && name == "managedFields" && path_[3] == "metadata" &&
           path_[2] == "object" && path_[1] == "request";
  }

  template <typename Value>
  bool add(Value&& value) {
    if (!count()) return false;
    if (skipped_from_ != 0 || std::exchange(skip_next_, false)) return true;
    place(std::forward<Value>(value));
    return true;
  }

  bool open(json::value_t type) {
    if (!count()) return false;
    if (++depth_ > kMaxDepth) return refuse("it is nested too deeply");
    if (skipped_from_ != 0) return true;
    if (std::exchange(skip_next_, false)) {
      skipped_from_ = depth_;
      return true;
    }
    open_.push_back(&place(type));
    return true;
  }

  bool close() {
    if (skipped_from_ == 0) {
      open_.pop_back();
    } else if (skipped_from_ == depth_) {
      skipped_from_ = 0;
    }
    --depth_;
    return true;
  }

  // Into the array that is open, the member whose key came last, or the root.
  template <typename Value>
  json& place(Value&& value) {
    if (open_.empty()) return root_ = json(std::forward<Value>(value));
    json& parent = *open_.back();
    if (parent.is_array()) {
      return parent.get_ref<json::array_t&>().emplace_back(std::forward<Value>(value));
    }
    return *slot_ = json(std::forward<Value>(value));
  }

  bool count() { return ++values_ <= kMaxValues || refuse("it holds too many values"); }

  bool refuse(const char* why) {
    problem_ = why;
    return false;
  }

  json root_;
  std::vector<json*> open_;  // only the last one grows, so none of them moves
  json* slot_ = nullptr;
  std::array<std::string, 4> path_;  // names of the members that are open, by depth
  size_t depth_ = 0;
  size_t skipped_from_ = 0;  // depth of the container that is left out; 0: none
  size_t values_ = 0;
  bool skip_next_ = false;
  std::string problem_;
};

}  // namespace

Result<json> parse_review(std::string_view text) {
  ReviewBuilder builder;
  if (json::sax_parse(text.begin(), text.end(), &builder)) return builder.take();
  return fail(ErrorCode::kInvalid, "reading the AdmissionReview: " + builder.problem());
}

}  // namespace compilecache::webhook
