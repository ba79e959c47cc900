#pragma once
// Ctrl-C and SIGTERM while something worth saving runs: the first asks for a stop, the second insists.

#include <atomic>

namespace tern {

/// While it lives, the first SIGINT or SIGTERM only sets a flag (the verb saves and exits); a second one ends the
/// process at once with 130 or 143. The destructor restores what was before. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

/// For the whole process: a mapped file that is cut short while it is read ends the program with a message and the code
/// of a bad file instead of a bare SIGBUS; a file that grows beyond `ulimit -f` is an error of the write.
void explain_file_signals();

/// Whether a stop has been asked for; safe from any thread.
bool stop_requested();
/// The same as a value, for code below apps/, which knows nothing of signals.
const std::atomic<bool>& stop_flag();
/// The signal that asked first; 0 if none did.
int stop_signal();
/// Forgets a request.
void clear_stop();

}  // namespace tern
