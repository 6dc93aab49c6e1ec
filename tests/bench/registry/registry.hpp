#pragma once

#include <sys/types.h>

#include <string>

namespace compilecache::bench {

// A registry of distribution v3 on a free port of loopback, with TLS by an authority of its own and
// the configuration of config/components/registry, but for tokens, which the peers could not get.
//
//   Registry registry(program, "/var/tmp/bench/registry");
//   const double before = registry.cpu_seconds();
//   ...                                              // curl --cacert registry.ca() registry.url()
//   const double used = registry.cpu_seconds() - before;
//
// It ends when this object is destroyed, and with the process of whoever made it.
class Registry {
 public:
  // Keeps everything below `folder`, which is made. Throws std::runtime_error when it does not
  // serve within half a minute.
  Registry(const std::string& program, const std::string& folder);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  [[nodiscard]] std::string host() const { return host_; }  // "127.0.0.1:40123"
  [[nodiscard]] std::string url() const { return "https://" + host_; }
  [[nodiscard]] std::string ca() const { return folder_ + "/ca/ca.crt"; }

  [[nodiscard]] double cpu_seconds() const;  // user and system, since its start
  [[nodiscard]] double resident_mib() const;
  // The most that was resident since forget_peak().
  [[nodiscard]] double peak_mib() const;
  void forget_peak() const;

 private:
  void make_certificates() const;
  void start(const std::string& program);
  void wait_until_serving();
  [[nodiscard]] std::string log() const;
  [[nodiscard]] double status_mib(const std::string& field) const;

  const std::string folder_;
  std::string host_;
  pid_t process_ = -1;
};

}  // namespace compilecache::bench
