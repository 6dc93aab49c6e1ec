#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

// HTML that is put together piece by piece. Markup stands in the source, as a literal; all
// else goes through text(), which makes it harmless between tags and within quoted attributes.
//
//   Markup page;
//   page.html("<p title=\"").text(name).html("\">").text(message).html("</p>");
//   std::string text = page.take();
//
// No I/O; each object is for one thread.

namespace compilecache::cli {

class Markup {
 public:
  // Takes literals and no strings, so that nothing of a cluster gets here by mistake.
  template <size_t N>
  Markup& html(const char (&literal)[N]) {
    out_.append(literal, N - 1);
    return *this;
  }
  // White space becomes spaces; what is not UTF-8 and other control characters become "?".
  Markup& text(std::string_view any);
  Markup& number(int64_t value);
  // With one decimal.
  Markup& number(double value);
  Markup& add(Markup other);
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace compilecache::cli
