#include "kernels/trial_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

namespace tern {
namespace {

constexpr int kDeadlineMs = 60'000;  // a trial takes milliseconds; only a deadlock takes a minute
constexpr char kWhole = '\n';        // stands behind an answer that is whole

// In the copy. Whatever this process does about its own faults, the copy's end it, without a core file.
[[noreturn]] void answer_and_end(const std::function<std::string()>& run, int to) noexcept {
  for (const int number : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) ::signal(number, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the signals that end the program may be blocked here
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  const std::string answer = run() + kWhole;
  for (size_t at = 0; at < answer.size();) {
    const ssize_t written = ::write(to, answer.data() + at, answer.size() - at);
    if (written < 0 && errno != EINTR) break;
    if (written > 0) at += static_cast<size_t>(written);
  }
  ::_exit(0);
}

// All that comes until the other end is closed; none, if that takes too long.
std::optional<std::string> read_answer(int from) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(kDeadlineMs);
  std::string all;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{.fd = from, .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? ::poll(&wait, 1, static_cast<int>(left)) : 0;
    if (ready == 0) return {};
    if (ready < 0) continue;  // interrupted
    char some[512];
    const ssize_t count = ::read(from, some, sizeof some);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return all;
    all.append(some, static_cast<size_t>(count));
  }
}

// Waits for its end. Where this process ignores the ends of its children, how it ended is not known.
std::string how_it_ended(pid_t copy) {
  int status = 0;
  while (::waitpid(copy, &status, 0) < 0)
    if (errno != EINTR) return "ended early";
  if (!WIFSIGNALED(status)) return fmt::format("ended early, with exit code {}", WEXITSTATUS(status));
  switch (WTERMSIG(status)) {
    case SIGILL:
      return "illegal instruction";
    case SIGSEGV:
      return "an instruction that the system forbids (SIGSEGV)";
    default:
      return fmt::format("ended by signal {}", WTERMSIG(status));
  }
}

}  // namespace

Trial try_in_a_copy(const std::function<std::string()>& run) {
  int answer[2];
  if (::pipe2(answer, O_CLOEXEC) != 0) return {false, fmt::format("pipe: {}", std::strerror(errno))};
  const pid_t copy = ::fork();
  const int error = errno;
  if (copy == 0) answer_and_end(run, answer[1]);
  ::close(answer[1]);
  if (copy < 0) {
    ::close(answer[0]);
    return {false, fmt::format("fork: {}", std::strerror(error))};
  }
  std::optional<std::string> said = read_answer(answer[0]);
  ::close(answer[0]);
  if (!said) ::kill(copy, SIGKILL);
  const std::string end = how_it_ended(copy);
  if (!said) return {true, fmt::format("did not end within {} s", kDeadlineMs / 1000)};
  if (said->empty() || said->back() != kWhole) return {true, end};
  said->pop_back();
  return {true, *said};
}

}  // namespace tern

// The copy makes threads, which ThreadSanitizer otherwise takes for a mistake.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif
#endif
