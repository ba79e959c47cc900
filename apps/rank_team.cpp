#include "apps/rank_team.h"

#include <utility>

#include "apps/threads.h"

namespace tern {

RankTeam::RankTeam(int ranks, int threads_of_each) : world_(ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    threads_.emplace_back([this, rank, threads_of_each] { serve(rank, threads_of_each); });
}

RankTeam::~RankTeam() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  begin_.notify_all();
  threads_.clear();
}

void RankTeam::run(const Work& work) {
  std::unique_lock lock(mutex_);
  work_ = &work, left_ = size(), ++number_;
  begin_.notify_all();
  ended_.wait(lock, [&] { return left_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void RankTeam::serve(int rank, int threads) {
  set_compute_threads(threads);
  world_.begin(rank);
  {
    Comm comm(world_.transport(rank));
    for (uint64_t seen = 0;;) {
      const Work* work = nullptr;
      {
        std::unique_lock lock(mutex_);
        begin_.wait(lock, [&] { return over_ || number_ != seen; });
        if (over_) break;
        seen = number_, work = work_;
      }
      std::exception_ptr error;
      try {
        (*work)(comm);
      } catch (...) {
        error = std::current_exception();
        comm.transport().abort("another rank failed");  // who waits for this one
      }
      const std::lock_guard lock(mutex_);
      if (error && !error_) error_ = error;
      if (--left_ == 0) ended_.notify_one();
    }
  }
  world_.end(rank);
}

}  // namespace tern
