#include "http/server.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "http/server_state.hpp"

namespace compilecache::http {

namespace net = boost::asio;
using tcp = net::ip::tcp;
using boost::system::error_code;

namespace {

// Out of file descriptors, accepting fails at once, again and again; a pause keeps the CPU free for
// the connections whose end will make room.
constexpr std::chrono::milliseconds kAcceptPause{100};

tl::unexpected<Error> listen_error(const std::string& where, const error_code& error) {
  ErrorCode code = ErrorCode::kIo;
  if (error == net::error::address_in_use) code = ErrorCode::kUnavailable;
  if (error == net::error::access_denied) code = ErrorCode::kForbidden;
  return fail(code, "listening on " + where + ": " + error.message() + "; choose another port");
}

Status listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, bool dual_stack) {
  const std::string where =
      endpoint.address().to_string() + " port " + std::to_string(endpoint.port());
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error && dual_stack) acceptor.set_option(net::ip::v6_only(false), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (!error) return {};
  error_code ignored;
  acceptor.close(ignored);
  return listen_error(where, error);
}

// "::" with IPv4 included where the machine has IPv6, else 0.0.0.0.
Status listen_everywhere(tcp::acceptor& acceptor, uint16_t port) {
  const auto both = listen(acceptor, {net::ip::address_v6::any(), port}, true);
  if (both) return both;
  if (both.error().code != ErrorCode::kIo) return both;
  return listen(acceptor, {net::ip::address_v4::any(), port}, false);
}

Status listen_as_told(tcp::acceptor& acceptor, const ServerOptions& options) {
  if (options.address.empty()) return listen_everywhere(acceptor, options.port);
  error_code error;
  const auto address = net::ip::make_address(options.address, error);
  if (error) {
    return fail(ErrorCode::kInvalid,
                "listening on \"" + options.address + "\": this is not an IP address");
  }
  return listen(acceptor, {address, options.port}, false);
}

}  // namespace

struct Server::Impl {
  Impl(ServerOptions options, Handler handler)
      : state(std::make_shared<ServerState>(std::move(options), std::move(handler))),
        acceptor(net::make_strand(state->next_loop())),
        pause(acceptor.get_executor()) {
    for (const auto& loop : state->loops) work.emplace_back(loop->get_executor());
  }

  void accept() {
    acceptor.async_accept(
        net::make_strand(state->next_loop()), [this](error_code error, tcp::socket socket) {
          if (!acceptor.is_open()) return;
          if (error && error != net::error::connection_aborted) {
            log_warn("accepting a connection failed", {{"error", error.message()}});
            return accept_later();
          }
          if (!error) take(std::move(socket));
          accept();
        });
  }

  void accept_later() {
    pause.expires_after(kAcceptPause);
    pause.async_wait([this](error_code error) {
      if (!error && acceptor.is_open()) accept();
    });
  }

  void take(tcp::socket socket) {
    const TlsContext tls = state->tls();
    if (state->options.tls && !tls) return;  // no certificate yet: the socket closes here
    const auto connection = make_connection(state, std::move(socket), tls);
    if (state->admit(connection)) connection->start();
  }

  static void run(net::io_context& loop) {
    for (;;) {
      try {
        loop.run();
        return;
      } catch (const std::exception& exception) {
        // Out of memory, most likely, and the connection it happened on is lost. The others go on.
        log_error("serving a connection failed", {{"error", exception.what()}});
      }
    }
  }

  void close_listener() {
    net::post(acceptor.get_executor(), [this] {
      error_code ignored;
      acceptor.close(ignored);
      pause.cancel();
    });
  }

  std::shared_ptr<ServerState> state;
  tcp::acceptor acceptor;
  net::steady_timer pause;
  std::vector<net::executor_work_guard<net::io_context::executor_type>> work;
  uint16_t port = 0;
  Mutex stop_mutex;
  std::vector<std::thread> threads GUARDED_BY(stop_mutex);
};

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Handler handler) {
  if (!options.client_ca.empty()) {
    const auto readable = client_tls(options.client_ca);
    if (!readable) return unexpected(readable.error());
  }
  try {
    auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
    const auto listening = listen_as_told(impl->acceptor, impl->state->options);
    if (!listening) return unexpected(listening.error());
    impl->port = impl->acceptor.local_endpoint().port();
    impl->accept();
    {
      const MutexLock lock(impl->stop_mutex);
      for (const auto& loop : impl->state->loops) {
        impl->threads.emplace_back([&loop] { Impl::run(*loop); });
      }
    }
    return std::unique_ptr<Server>(new Server(std::move(impl)));
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, std::string("starting a server: ") + exception.what());
  }
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { stop(std::chrono::milliseconds(0)); }

uint16_t Server::port() const { return impl_->port; }

Status Server::set_certificate(const std::string& chain_pem, const std::string& key_pem) {
  auto context = server_tls(chain_pem, key_pem, impl_->state->options.client_ca);
  if (!context) return unexpected(context.error());
  impl_->state->set_tls(std::move(*context));
  return {};
}

bool Server::has_certificate() const {
  return !impl_->state->options.tls || impl_->state->tls() != nullptr;
}

void Server::drain() { impl_->state->draining.store(true); }

bool Server::stop(std::chrono::milliseconds grace) {
  const MutexLock lock(impl_->stop_mutex);
  if (impl_->threads.empty()) return true;
  impl_->close_listener();
  drain();
  impl_->state->close_idle_connections();
  const bool clean = impl_->state->wait_until_empty(grace);
  impl_->state->refuse_posts();
  impl_->state->cut_all();
  impl_->work.clear();
  for (auto& thread : impl_->threads) thread.join();
  impl_->threads.clear();
  return clean;
}

std::chrono::milliseconds Server::held_up() const {
  const auto since = impl_->state->owing_since();
  if (!since) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               *since);
}

size_t Server::open_connections() const { return impl_->state->connections(); }

size_t Server::requests_in_flight() const { return impl_->state->in_flight.load(); }

}  // namespace compilecache::http
