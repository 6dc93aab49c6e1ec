#include "kube/json.hpp"

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;

// The characters of a body, one piece in memory at a time.
class Text {
 public:
  explicit Text(BodyReader& body) : body_(&body) {}
  explicit Text(std::string_view whole) : at_(whole.data()), end_(at_ + whole.size()) {}

  bool at_end() { return at_ == end_ && !refill(); }
  [[nodiscard]] char peek() const { return *at_; }  // not at the end
  void advance() { ++at_; }

  // Called right after a member's name: skips its value, in place of which "null" is read.
  void skip_value() {
    if (next_visible() != ':') return;  // the parser will see what is wrong
    ++at_;
    next_visible();
    skip_raw();
    rest_ = std::string_view(at_, size_t(end_ - at_));
    at_ = kNull.data();
    end_ = at_ + kNull.size();
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  static constexpr std::string_view kNull = ":null";

  bool refill() {
    std::string_view next = std::exchange(rest_, {});
    if (next.empty() && body_ != nullptr && !error_) {
      Result<std::string_view> piece = body_->next();
      if (piece) {
        next = *piece;
      } else {
        error_ = piece.error();
      }
    }
    at_ = next.data();
    end_ = at_ + next.size();
    return !next.empty();
  }

  // The next character that is no space; 0 at the end.
  char next_visible() {
    while (!at_end()) {
      if (*at_ != ' ' && *at_ != '\n' && *at_ != '\r' && *at_ != '\t') return *at_;
      ++at_;
    }
    return 0;
  }

  void skip_raw() {
    int depth = 0;
    do {
      if (at_end()) return;
      switch (*at_) {
        case '"':
          skip_string();
          break;
        case '{':
        case '[':
          ++depth;
          ++at_;
          break;
        case '}':
        case ']':
          --depth;
          ++at_;
          break;
        default:
          if (depth == 0) return skip_scalar();
          ++at_;
      }
    } while (depth > 0);
  }

  void skip_string() {
    ++at_;
    bool escaped = false;
    while (!at_end()) {
      const char c = *at_++;
      if (escaped) {
        escaped = false;
      } else if (c == '\\') {
        escaped = true;
      } else if (c == '"') {
        return;
      }
    }
  }

  void skip_scalar() {
    while (!at_end() && std::string_view(",}] \n\r\t").find(*at_) == std::string_view::npos) ++at_;
  }

  BodyReader* body_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::string_view rest_;  // of the present piece, while kNull is read
  std::optional<Error> error_;
};

// The iterator with which nlohmann-json reads characters.
class TextIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  TextIterator() = default;
  explicit TextIterator(Text& text) : text_(&text) {}
  char operator*() const { return text_->peek(); }
  TextIterator& operator++() {
    text_->advance();
    return *this;
  }
  TextIterator operator++(int) {
    text_->advance();
    return *this;
  }
  // Iterators are only ever compared with the end.
  bool operator==(const TextIterator&) const { return text_->at_end(); }

 private:
  Text* text_ = nullptr;
};

// Builds the tree of what is wanted. With `on_item` the elements of /items go there, each as soon
// as it is whole, and not into the tree.
class Builder {
 public:
  using ItemHandler = std::function<void(Json)>;

  Builder(Text& text, const Fields& fields, const ItemHandler* on_item)
      : text_(text), fields_(fields), on_item_(on_item) {}

  bool null() { return skipping_ ? !(skipping_ = false) : leaf(nullptr); }
  bool boolean(bool value) { return leaf(value); }
  bool number_integer(Json::number_integer_t value) { return leaf(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return leaf(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return leaf(value); }
  bool string(std::string& value) { return leaf(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not in a text
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    part_ = surplus_ > 0 ? nullptr : open_.back().part->member(name);
    if (part_ == nullptr) {
      skipping_ = true;
      text_.skip_value();
    } else {
      name_ = std::move(name);
    }
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

  Json take() && { return std::move(root_); }

 private:
  struct Open {
    Json value;
    const Fields::Part* part;
    std::string name;  // in the object around it
  };

  // The wanted parts of the value that begins now.
  [[nodiscard]] const Fields::Part* part_of_next() const {
    if (open_.empty()) return &fields_.root();
    return open_.back().value.is_array() ? open_.back().part : part_;
  }

  // Whether the value that begins or ends now is an element of a list that has enough of them.
  [[nodiscard]] bool is_surplus() const {
    return surplus_ > 0 || (!open_.empty() && open_.back().value.is_array() &&
                            open_.back().value.size() >= fields_.most_elements());
  }

  bool open(Json value) {
    if (is_surplus()) {
      ++surplus_;
      return true;
    }
    const Fields::Part* part = part_of_next();
    open_.push_back({std::move(value), part, std::move(name_)});
    name_.clear();
    return true;
  }

  bool close() {
    if (surplus_ > 0) {
      --surplus_;
      return true;
    }
    Open done = std::move(open_.back());
    open_.pop_back();
    name_ = std::move(done.name);
    return leaf(std::move(done.value));
  }

  bool leaf(Json value) {
    if (is_surplus()) return true;
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& around = open_.back(); around.value.is_object()) {
      around.value[std::move(name_)] = std::move(value);
    } else if (on_item_ != nullptr && open_.size() == 2 && around.name == "items") {
      (*on_item_)(std::move(value));
    } else {
      around.value.push_back(std::move(value));
    }
    name_.clear();
    return true;
  }

  Text& text_;
  const Fields& fields_;
  const ItemHandler* on_item_;
  Json root_;
  std::vector<Open> open_;
  std::string name_;  // of the member that is read now
  const Fields::Part* part_ = nullptr;
  bool skipping_ = false;
  size_t surplus_ = 0;  // how many values are open that are not kept
};

// Returns a discarded value when the text is no JSON.
Json build(Text& text, const Fields& fields, const Builder::ItemHandler* on_item) {
  Builder builder(text, fields, on_item);
  if (!Json::sax_parse(TextIterator(text), TextIterator(), &builder)) {
    return Json(Json::value_t::discarded);
  }
  return std::move(builder).take();
}

}  // namespace

std::string string_at(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* name : path) {
    if (!at->is_object()) return "";
    auto found = at->find(name);
    if (found == at->end()) return "";
    at = &*found;
  }
  return at->is_string() ? at->get<std::string>() : "";
}

Json parse_json(std::string_view text, const Fields& fields) {
  Text source(text);
  return build(source, fields, nullptr);
}

Result<ListHead> read_list(BodyReader& body, const Fields& fields,
                           const std::function<void(Json item)>& on_item) {
  Text text(body);
  const Fields list = fields.within("items", {"/metadata/resourceVersion", "/metadata/continue"});
  const Json head = build(text, list, &on_item);
  if (text.error()) return unexpected(*text.error());
  if (head.is_discarded()) {
    return fail(ErrorCode::kUnavailable, "the answer is not JSON; is this an API server?");
  }
  if (!head.is_object() || !head.contains("items")) {
    return fail(ErrorCode::kUnavailable, "the answer is no list; is this an API server?");
  }
  return ListHead{string_at(head, {"metadata", "resourceVersion"}),
                  string_at(head, {"metadata", "continue"})};
}

}  // namespace compilecache::kube
