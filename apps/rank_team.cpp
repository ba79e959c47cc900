#include "apps/rank_team.h"

#include <utility>

#include "apps/threads.h"
#include "comm/process_world.h"

namespace tern {

constexpr const char* kTeamToken = "team";

RankTeam::RankTeam(int ranks, int threads_of_each, TeamLinks links) : world_(ranks) {
  if (links == TeamLinks::tcp)
    server_ = std::make_unique<StoreServer>(HostPort{"127.0.0.1", 0}, StoreConfig{.size = ranks, .token = kTeamToken});
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

std::unique_ptr<Comm> RankTeam::comm_of(int rank) {
  if (!server_) return std::make_unique<Comm>(world_.transport(rank));
  const StoreRank me{.rank = rank, .size = size(), .token = kTeamToken};
  return std::make_unique<Comm>(make_process_transport(std::make_shared<StoreClient>(server_->address(), me), me));
}

void RankTeam::serve(int rank, int threads) {
  set_compute_threads(threads);
  world_.begin(rank);
  {
    std::unique_ptr<Comm> comm;
    std::exception_ptr alone;  // it has no links to the others
    try {
      comm = comm_of(rank);
    } catch (...) { alone = std::current_exception(); }
    for (uint64_t seen = 0;;) {
      const Work* work = nullptr;
      {
        std::unique_lock lock(mutex_);
        begin_.wait(lock, [&] { return over_ || number_ != seen; });
        if (over_) break;
        seen = number_, work = work_;
      }
      std::exception_ptr error = alone;
      try {
        if (!alone) (*work)(*comm);
      } catch (...) {
        error = std::current_exception();
        comm->transport().abort("another rank failed");  // who waits for this one
      }
      const std::lock_guard lock(mutex_);
      if (error && !error_) error_ = error;
      if (--left_ == 0) ended_.notify_one();
    }
  }
  world_.end(rank);
}

}  // namespace tern
