#include "cli/report/prometheus.hpp"

#include <chrono>

#include "http/proxy.hpp"
#include "http/session.hpp"
#include "http/url.hpp"

namespace compilecache::cli {
namespace {

constexpr std::chrono::seconds kPrometheusPatience{30};
// Two weeks of the four outcomes are some ten thousand bytes.
constexpr size_t kMostAnswerBytes = 1U << 20U;

Result<http::Url> prometheus_url(const std::string& text) {
  auto url = http::parse_url(text);
  if (!url) return unexpected(url.error());
  if (!url->user_info.empty()) {
    return fail(ErrorCode::kInvalid, url->shown() + ": a URL with user and password is not used");
  }
  if (url->target.find('?') != std::string::npos) {
    return fail(ErrorCode::kInvalid, url->shown() + ": a query does not belong to it");
  }
  while (url->target.ends_with('/')) url->target.pop_back();
  return url;
}

}  // namespace

Status check_prometheus_url(const std::string& url) {
  const auto parsed = prometheus_url(url);
  return parsed ? Status() : unexpected(parsed.error());
}

Result<PrometheusAnswer> ask_prometheus(const std::string& url, const std::string& target) {
  const auto base = prometheus_url(url);
  if (!base) return unexpected(base.error());
  http::Session session(
      {.plain_hosts = {base->host_port()}, .proxy = http::proxy_of_environment()});
  const auto answer =
      session.start({.url = base->text() + target,
                     .headers = {{"Accept", "application/json"}},
                     .deadline = std::chrono::steady_clock::now() + kPrometheusPatience});
  if (!answer) return unexpected(answer.error());
  auto body = http::read_all(**answer, kMostAnswerBytes);
  if (!body) return unexpected(body.error());
  return PrometheusAnswer{(*answer)->status(), std::move(*body)};
}

}  // namespace compilecache::cli
