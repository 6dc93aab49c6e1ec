// For the plugin as one static file. A static glibc would load the modules that /etc/nsswitch.conf
// names from the machine, with the machine's own glibc: a crash wherever the two differ. And
// OpenSSL knows only where Debian keeps certificate authorities.

#include <nss.h>
#include <unistd.h>

#include <cstdlib>

namespace {

// Names come from /etc/hosts and DNS (/etc/resolv.conf); these two are part of the program.
void resolve_without_modules() { (void)__nss_configure_lookup("hosts", "files dns"); }

// The first of the places that distributions use.
void find_authorities() {
  constexpr const char* kDebian = "/usr/lib/ssl/certs";
  constexpr const char* kElsewhere[] = {"/etc/pki/tls/certs/ca-bundle.crt",
                                        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
                                        "/etc/ssl/certs/ca-certificates.crt"};
  if (std::getenv("SSL_CERT_FILE") != nullptr || std::getenv("SSL_CERT_DIR") != nullptr) return;
  if (::access(kDebian, R_OK) == 0) return;
  for (const char* file : kElsewhere) {
    if (::access(file, R_OK) != 0) continue;
    ::setenv("SSL_CERT_FILE", file, 0);
    return;
  }
}

// Before main(), while there is one thread.
[[gnu::constructor]] void prepare_static_program() {
  resolve_without_modules();
  find_authorities();
}

}  // namespace
