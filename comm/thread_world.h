#pragma once
// Ranks as threads of one process ("virtual ranks"): the transport that tests, and training with --ranks, run on. A message
// is copied once, from the sender's memory to the receiver's.

#include <exception>
#include <functional>
#include <memory>

#include "comm/transport.h"

namespace tern {

struct ThreadWorldOptions {
  /// One rank runs at a time, and hands on when it waits: the next in turn that can go on. The order of everything is
  /// fixed then, and many ranks disturb each other on few cores no more than one does. Without deadlines.
  bool baton = false;
  double deadline_s = 0;  // the longest wait; 0: none
};

/// What the ranks share. That all ranks wait, and none for what is there, is seen at once and told with who waits for
/// whom; a rank that has ended counts as waiting for ever.
class ThreadWorld {
 public:
  explicit ThreadWorld(int ranks, ThreadWorldOptions = {});
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  int size() const;
  /// Of a rank; the world must outlive it.
  std::unique_ptr<Transport> transport(int rank);

  /// Around a rank's work, on its thread: `begin` waits for its turn under a baton, `end` says that it will not come back.
  void begin(int rank);
  void end(int rank);
  /// The rank whose failure was the first; −1: none.
  int failed_rank() const;

 private:
  struct State;
  class Rank;
  std::unique_ptr<State> state_;
};

/// Runs `work` on so many threads, each with its transport, and waits for all. The rank of a thread that throws aborts the
/// others. Errors: the first failure's own exception, whatever the others then threw.
void run_ranks(int ranks, const ThreadWorldOptions&, const std::function<void(std::unique_ptr<Transport>)>& work);

}  // namespace tern
