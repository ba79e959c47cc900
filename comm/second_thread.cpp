#include "comm/second_thread.h"

#include <utility>

namespace tern {

SecondThread::~SecondThread() {
  const std::scoped_lock lock(mutex_);
  stops_ = true;
  changed_.notify_all();
}

void SecondThread::post(std::function<void()> job) {
  if (!thread_.joinable()) thread_ = std::jthread([this] { run(); });  // first: if there is none, nothing is posted
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

size_t SecondThread::wait(size_t least) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || ended_ >= least; });
  return ended_;
}

std::exception_ptr SecondThread::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

std::exception_ptr SecondThread::take_failure() noexcept {
  const std::scoped_lock lock(mutex_);
  changed_.notify_all();
  return std::exchange(failure_, nullptr);
}

void SecondThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stops_ || (!failure_ && !jobs_.empty()); });
    if (stops_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) { failure = std::current_exception(); }
    job = nullptr;
    lock.lock();
    failure_ = std::move(failure);
    ++ended_;
    changed_.notify_all();
  }
}

}  // namespace tern
