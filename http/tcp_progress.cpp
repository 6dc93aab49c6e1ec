#include "http/tcp_progress.hpp"

#include <linux/tcp.h>  // netinet/tcp.h has an older struct of the same name
#include <netinet/in.h>
#include <sys/socket.h>

namespace compilecache::http {

uint64_t bytes_moved(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_bytes_acked + info.tcpi_bytes_received;
}

}  // namespace compilecache::http
