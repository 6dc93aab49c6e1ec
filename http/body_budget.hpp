#pragma once

#include <algorithm>
#include <atomic>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

// A limit on the memory of all bodies of a server together, of requests and of answers; internal to
// this folder. Bytes count from their arrival, not from their announcement, until nobody
// holds them any more. A worker may keep a request for longer than its connection lasts, and a peer
// that does not read keeps an answer. The first bytes of each body never count, so that large
// bodies can keep out large ones but no ordinary request.

namespace compilecache::http {

// Thread-safe.
class BodyBudget {
 public:
  BodyBudget(size_t limit, size_t free_for_each) : limit_(limit), free_(free_for_each) {}

  // One body's share of the budget, given back at its end. For one thread at a time. May outlive
  // the server.
  class Share {
   public:
    Share() = default;
    explicit Share(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
    Share(Share&& other) noexcept
        : budget_(std::move(other.budget_)), held_(std::exchange(other.held_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(held_, other.held_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->used_.fetch_sub(held_);
    }

    // Reports that the body has grown to that size; false when there is no room for it.
    [[nodiscard]] bool grow_to(size_t size) {
      if (budget_ == nullptr) return true;
      const size_t counted = size - std::min(size, budget_->free_);
      const size_t more = counted - std::min(counted, held_);
      if (more == 0) return true;
      if (budget_->used_.fetch_add(more) + more > budget_->limit_) {
        budget_->used_.fetch_sub(more);
        return false;
      }
      held_ += more;
      return true;
    }

   private:
    std::shared_ptr<BodyBudget> budget_;
    size_t held_ = 0;
  };

 private:
  const size_t limit_, free_;
  std::atomic<size_t> used_ = 0;
};

// The error for a body that the budget has no room for.
inline boost::system::error_code no_room_for_body() {
  return make_error_code(boost::system::errc::not_enough_memory);
}

// A Beast body that asks the budget. Unlike string_body it takes no memory for what is only
// announced.
struct BudgetedBody {
  // NOLINTBEGIN(readability-identifier-naming): Beast's names for the parts of a body.
  struct value_type {
    std::string text;
    BodyBudget::Share share;
  };

  class reader {
   public:
    template <bool IsRequest, typename Fields>
    reader(boost::beast::http::header<IsRequest, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<uint64_t>& length, boost::system::error_code& error) {
      constexpr uint64_t kAtOnce = 64U << 10;
      if (length) body_.text.reserve(std::min(*length, kAtOnce));
      error = {};
    }

    template <typename Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      const size_t size = boost::asio::buffer_size(buffers);
      error = {};
      if (!body_.share.grow_to(body_.text.size() + size)) {
        error = no_room_for_body();
        return 0;
      }
      for (const auto buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.text.append(static_cast<const char*>(buffer.data()), buffer.size());
      }
      return size;
    }

    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
  // NOLINTEND(readability-identifier-naming)
};

}  // namespace compilecache::http
