#include "operator/certificates/certificate_files.hpp"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/log.hpp"
#include "operator/certificates/x509.hpp"

namespace compilecache::controller {
namespace {

Result<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (file) return text.str();
  const Error error = errno_error("reading " + path, errno);
  return fail(ErrorCode::kUnavailable,
              error.message + "; is the certificate's Secret there and mounted?");
}

Result<ServedCertificate> read_folder(const std::string& folder) {
  auto certificate = read_file(folder + "/tls.crt");
  auto key = read_file(folder + "/tls.key");
  auto authority = read_file(folder + "/ca.crt");
  for (const auto* file : {&certificate, &key, &authority}) {
    if (!*file) return unexpected(file->error());
  }
  ServedCertificate served{{std::move(*certificate), std::move(*key)}, std::move(*authority)};
  if (!has_key(served.leaf)) {
    return fail(ErrorCode::kUnavailable, "reading " + folder +
                                             ": tls.crt and tls.key are not PEM or do not belong "
                                             "together (yet)");
  }
  if (!read_certificate(served.bundle)) {
    return fail(ErrorCode::kUnavailable, "reading " + folder + ": ca.crt is not PEM");
  }
  return served;
}

}  // namespace

CertificateFiles::CertificateFiles(std::string folder, std::chrono::milliseconds poll)
    : folder_(std::move(folder)), poll_(poll) {}

CertificateFiles::~CertificateFiles() { stop(); }

void CertificateFiles::on_change(Handler handler) { handlers_.push_back(std::move(handler)); }

Status CertificateFiles::prepare() { return round(); }

void CertificateFiles::start() {
  thread_ = std::thread([this] {
    while (!stop_.wait_for(poll_)) {
      if (auto done = round(); !done) {
        log_warn("looking for a new certificate", {{"error", done.error().message}});
      }
    }
  });
}

void CertificateFiles::stop() {
  stop_.cancel();
  if (thread_.joinable()) thread_.join();
}

Status CertificateFiles::round() {
  const MutexLock lock(round_);
  auto read = read_folder(folder_);
  if (!read) return unexpected(read.error());
  {
    const MutexLock guard(mutex_);
    if (served_ == *read) return {};
    served_ = *read;
  }
  log_info("serving another certificate", {{"folder", folder_}});
  for (const Handler& handler : handlers_) handler(*read);
  return {};
}

ServedCertificate CertificateFiles::served() const {
  const MutexLock lock(mutex_);
  return served_;
}

}  // namespace compilecache::controller
