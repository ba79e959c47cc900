#pragma once
// A copy of this process that tries something which may end it.

#include <functional>
#include <string>

namespace tern {

struct Trial {
  bool made = true;  // false: no copy could be made, and `said` is the reason
  std::string said;
};
/// Runs `run` in a forked copy of this process. `said` is what it returns or, if the copy ended before that, how it ended: "illegal
/// instruction", "an instruction that the system forbids (SIGSEGV)", "ended by signal 6", "did not end within 60 s".
/// This process installs no signal handler for it and its other threads are not touched. The copy leaves nothing behind:
/// it runs no destructors and flushes no files.
/// The copy has one thread, whatever this process has. So `run` must take no lock that another thread may hold, and must
/// start its parallel regions on a thread that it makes (libgomp's threads are not copied).
Trial try_in_a_copy(const std::function<std::string()>& run);

}  // namespace tern
