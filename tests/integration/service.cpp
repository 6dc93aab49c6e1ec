#include "tests/integration/service.hpp"

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <thread>

namespace compilecache::testing {
namespace net = boost::asio;
using tcp = net::ip::tcp;
using boost::system::error_code;

namespace {

// Carries bytes both ways until either side ends.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  Pipe(tcp::socket client, net::io_context& io) : client_(std::move(client)), backend_(io) {}

  void start(uint16_t port) {
    backend_.async_connect({net::ip::address_v4::loopback(), port},
                           [self = shared_from_this()](error_code error) {
                             if (error) return self->close();
                             self->carry(self->client_, self->backend_, self->up_);
                             self->carry(self->backend_, self->client_, self->down_);
                           });
  }

 private:
  using Buffer = std::array<char, 16 * 1024>;

  void carry(tcp::socket& from, tcp::socket& to, Buffer& buffer) {
    from.async_read_some(net::buffer(buffer), [self = shared_from_this(), &from, &to, &buffer](
                                                  error_code error, size_t size) {
      if (error) return self->close();
      net::async_write(to, net::buffer(buffer, size),
                       [self, &from, &to, &buffer](error_code write_error, size_t) {
                         if (write_error) return self->close();
                         self->carry(from, to, buffer);
                       });
    });
  }

  void close() {
    error_code ignored;
    client_.close(ignored);
    backend_.close(ignored);
  }

  tcp::socket client_, backend_;
  Buffer up_{}, down_{};
};

}  // namespace

struct LoopbackService::Impl {
  net::io_context io;
  tcp::acceptor acceptor{io, {net::ip::address_v4::loopback(), 0}};
  std::set<uint16_t> backends;  // in the thread only
  size_t turn = 0;
  std::thread thread;

  void accept() {
    acceptor.async_accept([this](error_code error, tcp::socket client) {
      if (error) return;
      if (!backends.empty()) {
        const auto backend = std::next(backends.begin(), turn++ % backends.size());
        std::make_shared<Pipe>(std::move(client), io)->start(*backend);
      }
      accept();
    });
  }
};

LoopbackService::LoopbackService() : impl_(std::make_unique<Impl>()) {
  impl_->accept();
  impl_->thread = std::thread([this] { impl_->io.run(); });
}

LoopbackService::~LoopbackService() {
  impl_->io.stop();
  impl_->thread.join();
}

uint16_t LoopbackService::port() const { return impl_->acceptor.local_endpoint().port(); }

void LoopbackService::set_backends(std::set<uint16_t> ports) {
  net::post(impl_->io, [this, ports = std::move(ports)] { impl_->backends = ports; });
}

}  // namespace compilecache::testing
