#include "http/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/strings.hpp"

namespace compilecache::http {

namespace ssl = boost::asio::ssl;

namespace {

TlsContext make_context(ssl::context::method method) {
  auto context = std::make_shared<ssl::context>(method);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  // An idle connection then holds no record buffers: 34 kB each otherwise.
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  return context;
}

// OpenSSL keeps errors in a queue per thread; what is left there would be blamed on the next call.
tl::unexpected<Error> unusable(const std::string& what, const std::string& why) {
  ERR_clear_error();
  return fail(ErrorCode::kInvalid, what + ": " + why);
}

// Where distributions keep what they trust: Debian, Fedora, SUSE, Alpine.
constexpr std::array kFolders = {"/etc/ssl/certs", "/etc/pki/tls/certs"};
constexpr std::array kFiles = {"/etc/ssl/certs/ca-certificates.crt",
                               "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                               "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                               "/etc/ssl/cert.pem"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Whether certificates have the hash of their name as their file's name there: "002c0b4f.0".
bool is_hashed(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (name.size() == 10 && name.ends_with(".0")) return true;
  }
  return false;
}

bool trust_folder(SSL_CTX* context, const std::string& folder) {
  return is_hashed(folder) && SSL_CTX_load_verify_dir(context, folder.c_str()) == 1;
}

bool trust_file(SSL_CTX* context, const std::string& file) {
  const bool trusted = SSL_CTX_load_verify_file(context, file.c_str()) == 1;
  ERR_clear_error();
  return trusted;
}

// Says what cannot be used of what the environment names.
std::string trust_system(SSL_CTX* context) {
  const std::string file = variable("SSL_CERT_FILE");
  const std::string folders = variable("SSL_CERT_DIR");
  if (!file.empty() && !trust_file(context, file)) {
    return "SSL_CERT_FILE names " + file + ", in which no PEM certificate can be read";
  }
  for (const auto& folder : split(folders, ':')) trust_folder(context, folder);
  if (!file.empty() || !folders.empty()) return "";
  for (const char* folder : kFolders) {
    if (trust_folder(context, folder)) return "";
  }
  for (const char* usual : kFiles) {
    if (trust_file(context, usual)) return "";
  }
  return "";  // a machine that trusts nobody: each server then says who it is to no avail
}

// Each connection shows its own: what was resumed would be as good as it once was.
void ask_for_certificates(ssl::context& context, const std::string& ca_pem) {
  context.add_certificate_authority(boost::asio::buffer(ca_pem));
  context.set_verify_mode(ssl::verify_peer);
  context.set_verify_callback([](bool, ssl::verify_context&) { return true; });
  SSL_CTX* native = context.native_handle();
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(native, 0);
}

}  // namespace

ClientCertificate client_certificate(SSL* connection) {
  if (SSL_get0_peer_certificate(connection) == nullptr) return ClientCertificate::kNone;
  // The last error, if there was any, whatever the callback said of it.
  return SSL_get_verify_result(connection) == X509_V_OK ? ClientCertificate::kTrusted
                                                        : ClientCertificate::kUntrusted;
}

Result<TlsContext> server_tls(const std::string& chain_pem, const std::string& key_pem,
                              const std::string& client_ca) {
  const std::string doing = "using a certificate and its key for serving";
  try {
    TlsContext context = make_context(ssl::context::tls_server);
    boost::system::error_code error;
    context->use_certificate_chain(boost::asio::buffer(chain_pem), error);
    if (error) {
      return unusable(doing, "no PEM certificate can be read (" + error.message() + ")");
    }
    context->use_private_key(boost::asio::buffer(key_pem), ssl::context::pem, error);
    if (error) {
      return unusable(doing, "the key is not PEM or is not the certificate's (" + error.message() +
                                 "); give both from the same pair");
    }
    if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
      return unusable(doing, "the key does not belong to the certificate");
    }
    if (!client_ca.empty()) ask_for_certificates(*context, client_ca);
    return context;
  } catch (const std::exception& exception) {
    return unusable(doing, exception.what());
  }
}

namespace {

constexpr char kTrusting[] = "reading the CA certificates to trust";

Result<TlsContext> client_context(const std::string& ca_pem, bool system) {
  TlsContext context = make_context(ssl::context::tls_client);
  context->set_verify_mode(ssl::verify_peer);
  if (system) {
    const std::string trouble = trust_system(context->native_handle());
    if (!trouble.empty()) return unusable(kTrusting, trouble);
    if (ca_pem.empty()) return context;
  }
  boost::system::error_code error;
  context->add_certificate_authority(boost::asio::buffer(ca_pem), error);
  if (error) return unusable(kTrusting, "no PEM certificate can be read (" + error.message() + ")");
  return context;
}

Result<TlsContext> client_context_or_error(const std::string& ca_pem, bool system) {
  try {
    return client_context(ca_pem, system);
  } catch (const std::exception& exception) {
    return unusable(kTrusting, exception.what());
  }
}

}  // namespace

Result<TlsContext> client_tls(const std::string& ca_pem) {
  return client_context_or_error(ca_pem, false);
}

Result<TlsContext> client_tls_of_system(const std::string& ca_pem) {
  return client_context_or_error(ca_pem, true);
}

}  // namespace compilecache::http
