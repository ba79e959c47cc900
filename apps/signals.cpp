#include "apps/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/mapped_file.h"

namespace tern {
namespace {

std::atomic<int> requested = 0;
std::atomic<bool> stopping = false;  // requested != 0
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
                  std::atomic<const char*>::is_always_lock_free,
              "a signal handler may touch them");
std::atomic<const char*> told_at_once = nullptr;  // what the first signal writes
std::atomic<bool> at_terminal = false;            // where the last words go
struct sigaction old_interrupt, old_terminate, old_hangup;
bool installed = false;

void mask_signals(int how) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  pthread_sigmask(how, &set, nullptr);
}

// For signal handlers: takes no memory and no lock.
void say(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }

void on_signal(int number) {
  const int error = errno;
  int none = 0;
  if (!requested.compare_exchange_strong(none, number)) ::_exit(128 + number);
  stopping = true;
  if (const char* text = told_at_once.load()) say("\n"), say(text), say("\n");
  errno = error;
}

void on_end_signal(int number) {
  if (at_terminal) say("\n");  // after ^C
  if (const char* text = told_at_once.load()) say("tern: "), say(text), say("\n");
  ::_exit(128 + number);
}

void take_over(void (*handler)(int), const char* told) {
  TERN_CHECK(!installed, "StopSignals, EndSignals: one is alive already");
  installed = true;
  told_at_once = told;
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // system calls under way go on; the loop looks at the flag
  sigaction(SIGINT, &action, &old_interrupt);
  sigaction(SIGTERM, &action, &old_terminate);
  sigaction(SIGHUP, nullptr, &old_hangup);  // the terminal is gone; nohup has it ignored, and so it stays
  if (old_hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

void restore_handlers() {
  sigaction(SIGINT, &old_interrupt, nullptr);
  sigaction(SIGTERM, &old_terminate, nullptr);
  sigaction(SIGHUP, &old_hangup, nullptr);
  told_at_once = nullptr;
  installed = false;
}

// Nothing here may take memory or a lock.
void on_bus_error(int, siginfo_t* info, void*) {
  const char* path = mapped_file_with(info->si_addr);
  if (path == nullptr) {  // not ours: the instruction runs again and ends the process as it would have
    ::signal(SIGBUS, SIG_DFL);
    return;
  }
  say("\ntern: ");
  for (const char* c = path; *c != '\0'; ++c)  // no byte of a name may steer the terminal
    (void)!::write(STDERR_FILENO, static_cast<unsigned char>(*c) < 0x20 || *c == 0x7F ? "?" : c, 1);
  say(": cut short by another program, or its disk failed, while it was read; make it whole and run the command "
      "again\n");
  ::_exit(static_cast<int>(ErrorKind::bad_file));
}

}  // namespace

void unblock_signals() { mask_signals(SIG_UNBLOCK); }

void take_signals_aside() {
  mask_signals(SIG_BLOCK);
  try {
    std::thread([] {
      unblock_signals();
      for (;;) ::pause();
    }).detach();
  } catch (const std::system_error&) { unblock_signals(); }
}

void explain_file_signals() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
  ::signal(SIGXFSZ, SIG_IGN);  // EFBIG then
}

StopSignals::StopSignals(const char* told) { take_over(on_signal, ::isatty(STDERR_FILENO) == 1 ? told : nullptr); }
StopSignals::~StopSignals() { restore_handlers(); }

EndSignals::EndSignals(const char* last_words) {
  at_terminal = ::isatty(STDERR_FILENO) == 1;
  take_over(on_end_signal, last_words);
}
EndSignals::~EndSignals() { restore_handlers(); }

bool stop_requested() { return requested.load() != 0; }
int stop_signal() { return requested.load(); }
const std::atomic<bool>& stop_flag() { return stopping; }
void clear_stop() { requested = 0, stopping = false; }

}  // namespace tern
