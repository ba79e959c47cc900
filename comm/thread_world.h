#pragma once
// Ranks as threads of one process ("virtual ranks"): the transport that tests, and training with --ranks, run on. A message
// is copied once, from the sender's memory to the receiver's.

#include <exception>
#include <functional>
#include <memory>

#include "comm/transport.h"

namespace tern {

struct ThreadWorldOptions {
  /// One rank runs at a time; when it waits, the next rank that can go on runs. The order of all events is then fixed,
  /// and many ranks on few cores cost no more than one. There are no deadlines then.
  bool baton = false;
  double deadline_s = 0;  // the longest wait; 0: none
};

/// What the ranks share. A deadlock (all ranks wait, and nothing that they wait for has come) is noticed at once, and the error
/// says who waits for whom; a rank that has ended counts as waiting for ever.
class ThreadWorld {
 public:
  explicit ThreadWorld(int ranks, ThreadWorldOptions = {});
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  int size() const;
  /// The transport of a rank; the world must outlive it.
  std::unique_ptr<Transport> transport(int rank);

  /// Around a rank's work, on its thread: `begin` waits for its turn under a baton, `end` says that the rank's work is over.
  void begin(int rank);
  void end(int rank);
  /// The rank whose failure was the first; −1: none.
  int failed_rank() const;

 private:
  struct State;
  class Rank;
  std::unique_ptr<State> state_;
};

/// Runs `work` on `ranks` threads, each with its transport, and waits for all. The rank of a thread that throws aborts the
/// others. Errors: the first failure's own exception, whatever the others then threw.
void run_ranks(int ranks, const ThreadWorldOptions&, const std::function<void(std::unique_ptr<Transport>)>& work);

}  // namespace tern
