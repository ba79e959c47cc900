#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "store/uring_reads.h"

namespace tern {
namespace {

constexpr int64_t kPiece = int64_t{256} << 10;
constexpr unsigned kDepth = 16;  // 4 MiB on their way

struct Ring {
  Ring() : error(-::io_uring_queue_init(kDepth, &ring, 0)) {}
  ~Ring() {
    if (error == 0) ::io_uring_queue_exit(&ring);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  io_uring ring{};
  int error;
};

// One long read on one ring.
class LongRead {
 public:
  LongRead(io_uring& ring, int fd, int64_t offset, std::span<std::byte> into)
      : ring_(ring), fd_(fd), offset_(offset), into_(into) {
    results_.assign(static_cast<size_t>((size() + kPiece - 1) / kPiece), 0);
  }
  int64_t run() {
    if (results_.empty()) return 0;
    while (true) {
      while (!gap_ && on_way_ < kDepth && next_ < results_.size() && prepare()) {}
      if (on_way_ == 0) break;
      const int error = ::io_uring_submit_and_wait(&ring_, 1);
      // What was prepared stays in the ring: it is handed over by the next call.
      if (error < 0 && error != -EINTR && error != -EAGAIN && error != -EBUSY) return give_up(error);
      take();
    }
    results_.resize(next_);
    return bytes_without_gap(results_, kPiece, bytes_of(next_ - 1));
  }

 private:
  int64_t size() const { return static_cast<int64_t>(into_.size()); }
  int64_t bytes_of(size_t piece) const { return std::min(kPiece, size() - static_cast<int64_t>(piece) * kPiece); }

  bool prepare() {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (!entry) return false;
    const auto at = static_cast<int64_t>(next_) * kPiece;
    ::io_uring_prep_read(entry, fd_, into_.data() + at, static_cast<unsigned>(bytes_of(next_)),
                         static_cast<uint64_t>(offset_ + at));
    ::io_uring_sqe_set_data64(entry, next_);
    ++next_, ++on_way_;
    return true;
  }
  void take() {
    io_uring_cqe* done = nullptr;
    while (on_way_ > 0 && ::io_uring_peek_cqe(&ring_, &done) == 0) {
      const auto piece = static_cast<size_t>(::io_uring_cqe_get_data64(done));
      results_[piece] = done->res;
      gap_ = gap_ || done->res < bytes_of(piece);
      ::io_uring_cqe_seen(&ring_, done);
      --on_way_;
    }
  }
  // Nobody may write to `into` behind our back: those on their way are waited for.
  int64_t give_up(int error) {
    io_uring_cqe* done = nullptr;
    const unsigned waiting = ::io_uring_sq_ready(&ring_);
    on_way_ -= std::min(on_way_, waiting);
    while (on_way_ > 0 && ::io_uring_wait_cqe(&ring_, &done) == 0) take();
    return error;
  }

  io_uring& ring_;
  int fd_;
  int64_t offset_;
  std::span<std::byte> into_;
  std::vector<int32_t> results_;
  size_t next_ = 0;
  unsigned on_way_ = 0;
  bool gap_ = false;  // what lies behind it is of no use
};

class Liburing final : public UringReads {
 public:
  int64_t read(int fd, int64_t offset, std::span<std::byte> into) override {
    std::unique_ptr<Ring> ring = take();
    if (ring->error != 0) return -ring->error;
    const int64_t got = LongRead(ring->ring, fd, offset, into).run();
    if (::io_uring_sq_ready(&ring->ring) == 0) give(std::move(ring));
    return got;
  }

 private:
  std::unique_ptr<Ring> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Ring>();
    std::unique_ptr<Ring> ring = std::move(free_.back());
    free_.pop_back();
    return ring;
  }
  void give(std::unique_ptr<Ring> ring) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(ring));
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<Ring>> free_;
};

}  // namespace

std::string uring_refusal() {
  const Ring ring;
  if (ring.error == 0) return "";
  return fmt::format("the kernel refuses io_uring ({}); threads read instead", std::strerror(ring.error));
}

std::unique_ptr<UringReads> make_uring_reads() { return std::make_unique<Liburing>(); }

}  // namespace tern
