#include "http/client.hpp"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include "base/release.hpp"
#include "base/strings.hpp"
#include "http/tls.hpp"

namespace compilecache::http {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using tcp = net::ip::tcp;
using boost::system::error_code;
using SteadyTime = std::chrono::steady_clock::time_point;

namespace {

// One call: asynchronous operations run one after another, so that each obeys the deadline, which
// Beast's synchronous ones do not.
class Call {
 public:
  Call(const ClientOptions& options, const ClientRequest& request, TlsContext tls)
      : options_(options),
        request_(request),
        where_(request.method + " https://" + url_host(options.address) + ":" +
               std::to_string(options.port) + request.target),
        tls_(std::move(tls)),
        stream_(io_, *tls_) {
    const auto now = std::chrono::steady_clock::now();
    deadline_ = now + request.timeout.value_or(options.total_timeout);
    connect_deadline_ = std::min(deadline_, now + options.connect_timeout);
  }

  Result<Response> run() {
    const std::stop_callback stop(request_.stop,
                                  [this] { net::post(io_, [this] { lowest().close(); }); });
    auto done = connect();
    if (done) done = send();
    if (!done) return unexpected(done.error());
    return receive();
  }

 private:
  // Starts an operation and runs it to its end.
  template <typename Start>
  error_code await(SteadyTime deadline, Start start) {
    error_code result;
    if (request_.stop.stop_requested()) return net::error::operation_aborted;
    lowest().expires_at(deadline);
    start([&result](const error_code& error, auto...) { result = error; });
    io_.restart();
    io_.run();
    return result;
  }

  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }

  Status connect() {
    error_code error;
    const auto address = net::ip::make_address(options_.address, error);
    if (error) {
      return fail(ErrorCode::kInvalid,
                  where_ + ": \"" + options_.address + "\" is not an IP address");
    }
    SSL* native = stream_.native_handle();
    // SNI has names alone; OpenSSL looks for an address among the certificate's addresses.
    net::ip::make_address(options_.server_name, error);
    const bool named = error.failed();
    if (options_.server_name.empty() || SSL_set1_host(native, options_.server_name.c_str()) != 1 ||
        (named && SSL_set_tlsext_host_name(native, options_.server_name.c_str()) != 1)) {
      return fail(ErrorCode::kInvalid,
                  where_ + ": \"" + options_.server_name + "\" is not a server name");
    }
    SSL_set_hostflags(native, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    error = await(connect_deadline_, [&](auto done) {
      lowest().async_connect(tcp::endpoint(address, options_.port), done);
    });
    if (error) return failed("connecting", error);
    lowest().socket().set_option(tcp::no_delay(true), error);
    error = await(connect_deadline_,
                  [&](auto done) { stream_.async_handshake(net::ssl::stream_base::client, done); });
    if (!error) return {};
    const long verdict = SSL_get_verify_result(native);
    if (error != beast::error::timeout && verdict != X509_V_OK) {
      return fail(ErrorCode::kUnauthorized, where_ + ": the server could not prove to be " +
                                                options_.server_name + ": " +
                                                X509_verify_cert_error_string(verdict));
    }
    return failed("TLS handshake", error);
  }

  Status send() {
    bhttp::request<bhttp::string_body> message;
    message.method_string(request_.method);
    message.target(request_.target);
    message.version(11);
    message.set(bhttp::field::host, url_host(options_.server_name));
    message.set(bhttp::field::user_agent, std::string("compilecache-agent/") + release());
    message.set(bhttp::field::connection, "close");
    if (!request_.bearer_token.empty()) {
      message.set(bhttp::field::authorization, "Bearer " + request_.bearer_token);
    }
    if (!request_.body.empty()) message.set(bhttp::field::content_type, request_.content_type);
    message.body() = request_.body;
    message.prepare_payload();
    const auto error =
        await(deadline_, [&](auto done) { bhttp::async_write(stream_, message, done); });
    // A server that refuses in mid-request answers and closes: the answer is worth reading.
    if (error && error != net::error::broken_pipe && error != net::error::connection_reset) {
      return failed("sending", error);
    }
    return {};
  }

  Result<Response> receive() {
    beast::flat_buffer buffer;
    bhttp::response_parser<bhttp::string_body> parser;
    parser.body_limit(options_.max_response_bytes);
    if (request_.method == "HEAD") parser.skip(true);
    // The header by itself first: Beast 1.74 overlooks a body over the limit when both come at
    // once.
    auto error = await(deadline_,
                       [&](auto done) { bhttp::async_read_header(stream_, buffer, parser, done); });
    if (!error) {
      error =
          await(deadline_, [&](auto done) { bhttp::async_read(stream_, buffer, parser, done); });
    }
    if (error) return unexpected(failed("reading the answer", error).error());
    auto& message = parser.get();
    Response response;
    response.status = static_cast<int>(message.result_int());
    response.content_type = std::string(message[bhttp::field::content_type]);
    for (const auto& field : message) {
      response.headers.emplace_back(field.name_string(), field.value());
    }
    response.body = std::move(message.body());
    return response;
  }

  Status failed(const std::string& step, const error_code& error) const {
    const std::string what = where_ + ": " + step + ": ";
    if (error == beast::error::timeout) {
      return fail(ErrorCode::kTimeout, what + "no answer in time");
    }
    if (error == bhttp::error::body_limit || error == bhttp::error::header_limit) {
      return fail(ErrorCode::kTooLarge, what + "the answer is larger than " +
                                            std::to_string(options_.max_response_bytes) + " bytes");
    }
    const bool cut_off =
        error == bhttp::error::end_of_stream || error == bhttp::error::partial_message;
    const bool not_http =
        error.category() == make_error_code(bhttp::error::bad_method).category() && !cut_off;
    if (not_http) return fail(ErrorCode::kCorrupt, what + "not HTTP (" + error.message() + ")");
    return fail(ErrorCode::kUnavailable, what + error.message());
  }

  const ClientOptions& options_;
  const ClientRequest& request_;
  const std::string where_;
  const TlsContext tls_;
  net::io_context io_{1};
  beast::ssl_stream<beast::tcp_stream> stream_;
  SteadyTime deadline_;
  SteadyTime connect_deadline_;
};

}  // namespace

Client::Client(ClientOptions options) : options_(std::move(options)) {}

Result<Response> Client::send(const ClientRequest& request) const {
  auto tls = client_tls(options_.ca_pem);
  if (!tls) return unexpected(tls.error());
  try {
    return Call(options_, request, std::move(*tls)).run();
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal,
                "calling " + options_.address + ": " + std::string(exception.what()));
  }
}

}  // namespace compilecache::http
