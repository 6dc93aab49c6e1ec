#include "tests/unit/http/tls_exchange.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>

namespace compilecache::http::testing {

std::string tls_exchange(uint16_t port, const std::string& request,
                         const std::optional<Pair>& certificate) {
  namespace net = boost::asio;
  namespace ssl = boost::asio::ssl;
  ssl::context context(ssl::context::tls_client);
  if (certificate) {
    context.use_certificate_chain(net::buffer(certificate->certificate_pem));
    context.use_private_key(net::buffer(certificate->key_pem), ssl::context::pem);
  }
  net::io_context loop;
  ssl::stream<net::ip::tcp::socket> stream(loop, context);
  stream.next_layer().connect({net::ip::address_v4::loopback(), port});
  boost::system::error_code error;
  stream.handshake(ssl::stream_base::client, error);
  if (error) return "";
  net::write(stream, net::buffer(request), error);
  std::string answer;
  net::read(stream, net::dynamic_buffer(answer), error);  // an error is the end
  return answer;
}

}  // namespace compilecache::http::testing
