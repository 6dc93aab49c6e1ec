#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "kube/cancellation.hpp"
#include "operator/certificates/certificate_source.hpp"

// A certificate in a folder, such as a mounted Secret of cert-manager: tls.crt, tls.key, and in
// ca.crt the authority that agents are to trust. Its renewer also writes caBundle; this class
// writes nothing.
//
//   CertificateFiles files("/etc/compilecache/certificates");
//
// The folder is read again every `poll`: the kubelet replaces a mounted Secret as a whole within a
// minute or so of its change, long before a certificate ends. Files read in the middle of that
// do not belong together; the certificate in use then stays until the next look.

namespace compilecache::controller {

class CertificateFiles : public CertificateSource {
 public:
  explicit CertificateFiles(std::string folder,
                            std::chrono::milliseconds poll = std::chrono::seconds(10));
  ~CertificateFiles() override;
  CertificateFiles(const CertificateFiles&) = delete;
  CertificateFiles& operator=(const CertificateFiles&) = delete;

  void on_change(Handler handler) override;
  // Returns kUnavailable while there is no usable certificate.
  Status prepare() override;
  void start() override;
  void stop() override;
  Status round() override;
  [[nodiscard]] ServedCertificate served() const override;
  [[nodiscard]] bool trusted() const override { return true; }  // we cannot know

 private:
  const std::string folder_;
  const std::chrono::milliseconds poll_;
  std::vector<Handler> handlers_;
  Mutex round_;  // one at a time
  mutable Mutex mutex_;
  ServedCertificate served_ GUARDED_BY(mutex_);
  kube::Cancellation stop_;
  std::thread thread_;
};

}  // namespace compilecache::controller
