#pragma once

#include <cstdint>
#include <memory>

#include "http/server.hpp"

// Takes an answer back to its connection; internal to this folder.

namespace compilecache::http {

class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  // Thread-safe. Ignored when that request was answered before.
  virtual void answer(uint64_t request, Response response) = 0;
};

// The Responder does not keep the connection alive: a worker may hold it for as long as it likes.
Responder make_responder(std::weak_ptr<AnswerSink> sink, uint64_t request);

}  // namespace compilecache::http
