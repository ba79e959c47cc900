#pragma once
// A team of ranks, which are threads of this process and do one piece of work after another.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "comm/store.h"
#include "comm/thread_world.h"

namespace tern {

/// How the ranks of a team exchange messages: through shared memory, or over TCP on 127.0.0.1, as ranks that are processes of one machine do.
enum class TeamLinks : uint8_t { memory, tcp };

/// Each rank keeps its thread, its team of compute threads and its Comm from one piece of work to the next.
class RankTeam {
 public:
  RankTeam(int ranks, int threads_of_each, TeamLinks links = TeamLinks::memory);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  int size() const { return world_.size(); }
  using Work = std::function<void(Comm&)>;
  /// Runs `work` on every rank at the same time, and returns when all have ended. Errors: those of the first rank that
  /// failed; the team cannot be used afterwards.
  void run(const Work&);

 private:
  void serve(int rank, int threads);
  std::unique_ptr<Comm> comm_of(int rank);

  ThreadWorld world_;
  std::unique_ptr<StoreServer> server_;  // if the links are TCP
  std::mutex mutex_;
  std::condition_variable begin_, ended_;
  const Work* work_ = nullptr;  // guarded by mutex_, as all members below except threads_
  uint64_t number_ = 0;         // of the piece of work
  int left_ = 0;                // ranks that have not finished it
  bool over_ = false;
  std::exception_ptr error_;
  std::vector<std::jthread> threads_;
};

}  // namespace tern
