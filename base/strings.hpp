#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace compilecache {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);
// The beginning of the text, at most that many bytes, cut between characters (UTF-8).
std::string_view first_bytes(std::string_view text, size_t most);

// A host as URLs and Host headers have it: an IPv6 address in brackets ("[::1]"), any other as it
// is.
std::string url_host(std::string_view host);

// `text` as a Kubernetes label value: at most 63 characters of [A-Za-z0-9._-], alphanumeric at both
// ends. Other characters become "-"; what is too long keeps its beginning and ends in a hash of the
// whole, so that two long names stay apart.
std::string to_label_value(std::string_view text);

}  // namespace compilecache
