#pragma once

#include <cstdint>

namespace compilecache::http {

// How many bytes a TCP connection has received and had acknowledged, together; 0 where the kernel
// does not tell. It grows while a slow peer still takes what lies in the kernel's buffer, and while
// a TLS record comes in whose beginning nobody can use yet.
uint64_t bytes_moved(int socket);

}  // namespace compilecache::http
