#pragma once
// Ranks as threads of this process that do one thing after another together.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "comm/thread_world.h"

namespace tern {

/// Each rank keeps its thread, its team of compute threads and its Comm from one piece of work to the next.
class RankTeam {
 public:
  RankTeam(int ranks, int threads_of_each);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  int size() const { return world_.size(); }
  using Work = std::function<void(Comm&)>;
  /// Runs it on every rank at the same time and returns when all have ended. Errors: the first rank's that failed; the team is of no use then.
  void run(const Work&);

 private:
  void serve(int rank, int threads);

  ThreadWorld world_;
  std::mutex mutex_;
  std::condition_variable begin_, ended_;
  const Work* work_ = nullptr;  // under the mutex, as all below
  uint64_t number_ = 0;         // of the work
  int left_ = 0;                // ranks that have not ended it
  bool over_ = false;
  std::exception_ptr error_;
  std::vector<std::jthread> threads_;
};

}  // namespace tern
