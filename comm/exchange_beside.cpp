#include "comm/exchange_beside.h"

#include <utility>

#include "base/error.h"

namespace tern {

ExchangeBeside::~ExchangeBeside() {
  const std::scoped_lock lock(mutex_);
  stops_ = true;
  changed_.notify_all();
}

void ExchangeBeside::post(std::function<void()> exchange) {
  if (!thread_.joinable()) thread_ = std::jthread([this] { run(); });
  const std::scoped_lock lock(mutex_);
  TERN_CHECK(!posted_, "ExchangeBeside: nobody has waited for the last exchange");
  posted_ = true;
  exchange_ = std::move(exchange);
  changed_.notify_all();
}

void ExchangeBeside::await_end(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return !exchange_; });
}

void ExchangeBeside::wait() {
  std::unique_lock lock(mutex_);
  await_end(lock);
  posted_ = false;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ExchangeBeside::drop() noexcept {
  std::unique_lock lock(mutex_);
  await_end(lock);
  posted_ = false;
  failure_ = nullptr;
}

// On the second thread. While an exchange runs, the computing thread does not change exchange_.
void ExchangeBeside::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stops_ || exchange_; });
    if (!exchange_) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      exchange_();
    } catch (...) { failure = std::current_exception(); }
    lock.lock();
    failure_ = std::move(failure);
    exchange_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace tern
