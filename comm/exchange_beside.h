#pragma once
// An exchange of messages that runs beside the compute, on a second thread of the rank.

#include <cstddef>
#include <functional>
#include <utility>

#include "comm/second_thread.h"

namespace tern {

/// One exchange at a time. The computing thread makes all calls. From `post` until `wait` or `drop` has returned, only the second thread,
/// which runs the exchange, may use the world's transport.
/// Threads   The first `post` starts the second thread, which has no team of threads.
/// Errors    TERN_CHECK: `post` before the last exchange was waited for or dropped. What an exchange throws is thrown by `wait`; the
///           next exchange then begins as if nothing had failed.
/// End       The destructor waits until an exchange under way ends, or fails because another rank failed.
class ExchangeBeside {
 public:
  ExchangeBeside() = default;
  ~ExchangeBeside() { drop(); }
  ExchangeBeside(const ExchangeBeside&) = delete;

  /// Begins the exchange and returns at once. Nobody else may write what the exchange reads, or read or write what it writes, until
  /// `wait` or `drop` has returned.
  void post(std::function<void()> exchange);
  /// Returns when the exchange has ended; at once if there is none.
  void wait();
  /// As `wait`, but forgets what the exchange threw.
  void drop() noexcept;

 private:
  size_t count_ = 0;     // exchanges posted
  bool posted_ = false;  // the last one, and neither waited for nor dropped
  SecondThread thread_;
};

/// Posts an exchange and sees to it that it ends before this object does: declare it behind what the exchange reads and writes.
class PostedExchange {
 public:
  PostedExchange(ExchangeBeside& beside, std::function<void()> exchange) : beside_(beside) {
    beside_.post(std::move(exchange));
  }
  ~PostedExchange() {
    if (!waited_) beside_.drop();  // another exception is under way
  }
  PostedExchange(const PostedExchange&) = delete;
  /// Once. Errors: what the exchange threw.
  void wait() {
    waited_ = true;
    beside_.wait();
  }

 private:
  ExchangeBeside& beside_;
  bool waited_ = false;
};

}  // namespace tern
