#include "tests/unit/http/session_servers.hpp"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

namespace compilecache::http::testing {

Status Counting::read_at(std::span<uint8_t> bytes, uint64_t offset) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>((offset + i) % 251);
  read_ = std::max<uint64_t>(read_, offset + bytes.size());
  return {};
}

void say_ok(const Request&, const Responder& respond) { respond(text_response(200, "ok")); }

std::string counted(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i % 251);
  return text;
}

Result<std::string> body_of(Session& session, const SessionRequest& request) {
  auto answer = session.start(request);
  if (!answer) return unexpected(answer.error());
  return read_all(**answer, 64U << 20);
}

std::string told(Session& session, const SessionRequest& request) {
  const auto body = body_of(session, request);
  return body ? *body : body.error().message;
}

void TlsSessionTest::serve(Handler handler, const std::string& name, long good_for) {
  auto server = Server::start({.address = "127.0.0.1", .tls = true}, std::move(handler));
  ASSERT_TRUE(server) << server.error().message;
  server_ = std::move(*server);
  const Pair pair = ca_.issue(name, good_for);
  ASSERT_TRUE(server_->set_certificate(pair.certificate_pem, pair.key_pem));
}

SessionOptions TlsSessionTest::options() const {
  return {.ca_pem = ca_.pem(),
          .system_authorities = false,
          .fixed_host = host_port(),
          .fixed_address = "127.0.0.1",
          .connect_timeout = std::chrono::seconds(30),
          .stall_timeout = std::chrono::seconds(30)};
}

std::string read_head(int fd) {
  std::string head;
  char byte = 0;
  while (!head.ends_with("\r\n\r\n") && recv(fd, &byte, 1, 0) == 1) head += byte;
  return head;
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void read_to_the_end(int fd) {
  std::vector<char> bytes(1U << 20);
  while (recv(fd, bytes.data(), bytes.size(), 0) > 0) continue;
}

std::string ok_answer(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::unique_ptr<RawServer> tls_parrot(const TestCa& ca, const std::string& name, std::string bytes,
                                      bool goodbye) {
  return std::make_unique<RawServer>(
      [pair = ca.issue(name), bytes = std::move(bytes), goodbye](int fd) {
        SSL_CTX* context = SSL_CTX_new(TLS_server_method());
        BIO* certificate = BIO_new_mem_buf(pair.certificate_pem.data(), -1);
        BIO* key = BIO_new_mem_buf(pair.key_pem.data(), -1);
        X509* x509 = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
        EVP_PKEY* evp = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
        SSL_CTX_use_certificate(context, x509);
        SSL_CTX_use_PrivateKey(context, evp);
        SSL* ssl = SSL_new(context);
        SSL_set_fd(ssl, fd);
        char request[4096];
        if (SSL_accept(ssl) == 1 && SSL_read(ssl, request, sizeof request) > 0 && !bytes.empty()) {
          SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size()));
        }
        if (goodbye) SSL_shutdown(ssl);
        SSL_free(ssl);
        X509_free(x509);
        EVP_PKEY_free(evp);
        BIO_free(certificate);
        BIO_free(key);
        SSL_CTX_free(context);
      });
}

namespace {

// Passes bytes on between two connections until either ends.
void relay(int client, int server, const std::function<bool(int, std::string_view)>& pass) {
  for (;;) {
    pollfd ends[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (poll(ends, 2, 60000) <= 0) return;
    char bytes[4096];
    if (ends[0].revents != 0) {
      const ssize_t got = recv(client, bytes, sizeof bytes, 0);
      if (got <= 0) return;
      send_all(server, {bytes, static_cast<size_t>(got)});
    }
    if (ends[1].revents != 0) {
      const ssize_t got = recv(server, bytes, sizeof bytes, 0);
      if (got <= 0 || !pass(client, {bytes, static_cast<size_t>(got)})) return;
    }
  }
}

}  // namespace

ThroughProxyTest::ThroughProxyTest() {
  serve([](const Request& request, const Responder& respond) {
    respond(text_response(200, "from " + std::string(request.header("Host").value_or(""))));
  });
}

bool ThroughProxyTest::send_on(int client, std::string_view bytes) {
  send_all(client, bytes);
  return true;
}

void ThroughProxyTest::start_proxy(const std::string& answer, Pass pass) {
  proxy_ = std::make_unique<RawServer>([this, answer, pass = std::move(pass)](int fd) {
    asked_ += read_head(fd);
    send_all(fd, answer);
    if (!answer.starts_with("HTTP/1.1 200")) return;
    const RawSocket server(server_->port());
    relay(fd, server.descriptor(), pass);
  });
}

SessionOptions ThroughProxyTest::through(const std::string& user) const {
  SessionOptions options = this->options();
  options.fixed_host.clear();
  options.proxy.url = "http://" + user + "127.0.0.1:" + std::to_string(proxy_->port());
  return options;
}

std::string ThroughProxyTest::asked() {
  proxy_.reset();
  return asked_;
}

void RawSessionTest::parrot(std::string bytes) {
  serve([bytes = std::move(bytes)](int fd) {
    read_head(fd);
    send_all(fd, bytes);
  });
}

SessionOptions RawSessionTest::options() const {
  return {.plain_hosts = {host_port()},
          .connect_timeout = std::chrono::seconds(30),
          .stall_timeout = std::chrono::seconds(30)};
}

Result<std::string> RawSessionTest::fetch(const std::string& method) {
  Session session(options());
  return body_of(session, {.method = method, .url = url()});
}

}  // namespace compilecache::http::testing
