#pragma once
// Ranks as threads of one process ("virtual ranks"). Training with --ranks, `tern profile` and tests use this transport. A message is copied once,
// from the sender's memory to the receiver's.

#include <exception>
#include <functional>
#include <memory>

#include "comm/transport.h"

namespace tern {

struct ThreadWorldOptions {
  /// One rank runs at a time. When it waits, the next rank that can go on runs. So the order of all events is fixed, and many ranks
  /// need no more than one core. deadline_s has no effect then.
  bool baton = false;
  double deadline_s = 0;  // the longest wait, in seconds; 0: no limit
};

/// What the ranks share. A deadlock (every rank waits or has ended, and no awaited message can come) is an error at once. The error
/// names what each rank waits for.
class ThreadWorld {
 public:
  explicit ThreadWorld(int ranks, ThreadWorldOptions = {});
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  int size() const;
  /// The transport of a rank; the world must outlive it.
  std::unique_ptr<Transport> transport(int rank);

  /// A rank's thread calls `begin` before its work (with a baton it waits there for its turn), and `end` after it.
  void begin(int rank);
  void end(int rank);
  /// The rank that failed first; −1: none has failed.
  int failed_rank() const;

 private:
  struct State;
  class Rank;
  std::unique_ptr<State> state_;
};

/// Runs `work` on `ranks` threads, each with its transport, and waits for all. If `work` throws, its rank aborts the others.
/// Errors: the exception of the rank that failed first, whatever the others threw after it.
void run_ranks(int ranks, const ThreadWorldOptions&, const std::function<void(std::unique_ptr<Transport>)>& work);

}  // namespace tern
