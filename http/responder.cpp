#include "http/responder.hpp"

#include <atomic>

namespace compilecache::http {

struct Responder::Slot {
  Slot(std::weak_ptr<AnswerSink> answer_sink, uint64_t number)
      : sink(std::move(answer_sink)), request(number) {}
  ~Slot() {
    if (!answered.load()) deliver(text_response(500, "internal error: the request was dropped"));
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  void deliver(Response response) {
    if (answered.exchange(true)) return;
    if (const auto connection = sink.lock()) connection->answer(request, std::move(response));
  }

  const std::weak_ptr<AnswerSink> sink;
  const uint64_t request;
  std::atomic<bool> answered = false;
};

Responder::Responder(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {}

void Responder::operator()(Response response) const { slot_->deliver(std::move(response)); }

Responder make_responder(std::weak_ptr<AnswerSink> sink, uint64_t request) {
  return Responder(std::make_shared<Responder::Slot>(std::move(sink), request));
}

}  // namespace compilecache::http
