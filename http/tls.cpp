#include "http/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>

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

Result<TlsContext> client_tls(const std::string& ca_pem) {
  const std::string doing = "reading the CA certificates to trust";
  try {
    TlsContext context = make_context(ssl::context::tls_client);
    boost::system::error_code error;
    context->add_certificate_authority(boost::asio::buffer(ca_pem), error);
    if (error) return unusable(doing, "no PEM certificate can be read (" + error.message() + ")");
    context->set_verify_mode(ssl::verify_peer);
    return context;
  } catch (const std::exception& exception) {
    return unusable(doing, exception.what());
  }
}

}  // namespace compilecache::http
