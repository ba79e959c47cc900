#pragma once
// Ctrl-C and SIGTERM while a verb has something to save: the first signal requests a stop, the second ends the process.

#include <atomic>

namespace tern {

/// What the verbs that save their state say at the first signal.
inline constexpr const char* kStopsSafely =
    "stopping as soon as what is under way has ended safely; Ctrl-C again ends at once";

/// While it lives, the first SIGINT or SIGTERM only sets a flag, so that the verb can save and exit. A second one ends the
/// process at once with 130 or 143. The destructor restores the handlers that were there before. Only one may live at a time.
/// `told`: a line that the first signal writes to standard error, if that is a terminal, as the verb may take seconds until
/// it looks at the flag. The text must outlive the object.
class StopSignals {
 public:
  explicit StopSignals(const char* told = nullptr);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

/// While it lives, the first SIGINT, SIGTERM or SIGHUP writes "tern: " and `last_words` to standard error, and ends the process at once with
/// 130, 143 or 129: for waits in which nothing has begun. The destructor restores the handlers that were there before. No StopSignals may
/// live beside it. The text must outlive the object.
class EndSignals {
 public:
  explicit EndSignals(const char* last_words);
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
};

/// From here on a thread of its own takes SIGINT, SIGTERM and SIGHUP; they are blocked on the calling thread and on all that start later (LineReader takes SIGINT itself while it reads).
/// oneDNN's f32 products (2.6, AVX2) point the stack pointer into a buffer on the heap: a handler that ran there overwrote what lies before
/// it. Call it once in `main`, before other threads start. If the system gives no thread, signals are taken as before.
void take_signals_aside();
/// Unblocks these signals on the calling thread. It may be called between fork and exec, where a child must not keep them blocked.
void unblock_signals();
/// Sets handlers for the whole process. If a mapped file is truncated while it is read, the program ends with a message and
/// the exit code of a bad file, instead of SIGBUS. If a file grows beyond `ulimit -f`, the write fails with an error.
void explain_file_signals();
/// Whether a stop was requested. Any thread may call it.
bool stop_requested();
/// The flag itself, for code below apps/, which knows nothing of signals.
const std::atomic<bool>& stop_flag();
/// The signal that requested the stop; 0: there was none.
int stop_signal();
/// Clears the flag.
void clear_stop();

}  // namespace tern
