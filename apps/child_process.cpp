#include "apps/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <utility>

#include "apps/signals.h"
#include "base/error.h"

namespace tern {
namespace {

// Reads what is there, or waits up to 20 ms for more. False at the end of the output.
bool read_some(int descriptor, const ChildOptions& options, ChildResult& result) {
  pollfd wait{descriptor, POLLIN, 0};
  if (::poll(&wait, 1, 20) <= 0) return true;
  char buffer[65536];
  const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
  if (count < 0) return errno == EINTR;
  if (!options.count_only) result.output.append(buffer, static_cast<size_t>(count));
  result.output_bytes += count;
  return count > 0;
}

// In the child, between fork and exec: only calls that are safe there. Does not return.
[[noreturn]] void become(char* const* argv, const char* stdin_file, int output, bool join_stderr, int failure) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // who started it may be killed: then it stops too (training saves first)
  ::signal(SIGINT, SIG_DFL);
  unblock_signals();
  const int input = ::open(stdin_file, O_RDONLY);
  if (input >= 0 && ::dup2(input, 0) == 0 && ::dup2(output, 1) == 1 && (!join_stderr || ::dup2(output, 2) == 2))
    ::execvp(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

// Starts the program; returns its number and the reading end of its output.
std::pair<pid_t, int> start(const std::vector<std::string>& arguments, const ChildOptions& options) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const char* input = options.stdin_file.empty() ? "/dev/null" : options.stdin_file.c_str();
  int output[2], failure[2];  // the second stays empty and closes at exec
  if (::pipe2(output, O_CLOEXEC) != 0 || ::pipe2(failure, O_CLOEXEC) != 0)
    throw Error(ErrorKind::bug, "pipe: {}", std::strerror(errno));
  const pid_t pid = ::fork();
  if (pid == 0) become(argv.data(), input, output[1], options.join_stderr, failure[1]);
  const int fork_error = errno;
  ::close(output[1]);
  ::close(failure[1]);
  int error = pid < 0 ? fork_error : 0;
  if (pid >= 0 && ::read(failure[0], &error, sizeof error) > 0) ::waitpid(pid, nullptr, 0);
  ::close(failure[0]);
  if (error == 0) return {pid, output[0]};
  ::close(output[0]);
  throw Error(ErrorKind::bug, "{}: cannot be started: {}", arguments[0], std::strerror(error));
}

// Until it has ended. 128 + signal if a signal ended it.
int exit_code_of(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// While a child runs, Ctrl-C is the child's to answer: it reaches both, and we want to hear how the child ended.
class IgnoreInterrupt {
 public:
  // By a handler: SIG_IGN would act when another thread takes the signal, which may be after the destructor.
  IgnoreInterrupt() : before_(::signal(SIGINT, [](int) {})) {}
  ~IgnoreInterrupt() { ::signal(SIGINT, before_); }

 private:
  void (*before_)(int);
};

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments, const ChildOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const IgnoreInterrupt ignore;
  const auto [pid, output] = start(arguments, options);
  ChildResult result;
  while (read_some(output, options, result)) {
    if (result.killed || !options.kill_when || !options.kill_when()) continue;
    ::kill(pid, SIGKILL);
    result.killed = true;
  }
  ::close(output);
  result.exit_code = exit_code_of(pid);
  result.killed = result.killed && result.exit_code == 128 + SIGKILL;  // it may have ended by itself just before
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

ChildBeside::ChildBeside(const std::vector<std::string>& arguments) { std::tie(pid_, output_) = start(arguments, {}); }

ChildBeside::~ChildBeside() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    exit_code_of(pid_);
  }
  ::close(output_);
}

std::string ChildBeside::line(const std::function<bool()>& give_up) {
  size_t end;
  while ((end = read_.output.find('\n')) == std::string::npos)
    if (!read_some(output_, {}, read_) || give_up()) return "";
  std::string found = read_.output.substr(0, end);
  read_.output.erase(0, end + 1);
  return found;
}

int ChildBeside::end() {
  ::kill(pid_, SIGTERM);
  return exit_code_of(std::exchange(pid_, -1));
}

ErrorKind kind_of_exit(int exit_code) {
  constexpr int kLast = static_cast<int>(ErrorKind::undecided), kInterrupted = static_cast<int>(ErrorKind::interrupted);
  if (exit_code == kInterrupted || exit_code == 128 + SIGINT || exit_code == 128 + SIGTERM)
    return ErrorKind::interrupted;
  return exit_code >= 1 && exit_code <= kLast ? static_cast<ErrorKind>(exit_code) : ErrorKind::bug;
}

bool found_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "";
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string folder = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    if (!folder.empty() && ::access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace tern
