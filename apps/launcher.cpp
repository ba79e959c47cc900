#include "apps/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>

#include "apps/child_process.h"
#include "apps/signals.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/text.h"
#include "comm/store.h"

namespace tern {
namespace {

using Seconds = std::chrono::duration<double>;
double now_s() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }
constexpr double kGrace = 3;

struct RankProcess {
  int rank = 0;
  pid_t pid = -1;
  Descriptor lines{};   // what it says; none of rank 0
  std::string said{};   // not told yet
  std::string error{};  // its last line of its own, as main says errors
  bool running = true;
  int exit_code = 0;  // 128 + signal if one ended it
  int signal = 0;
};

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  TERN_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "getrandom");
  std::string text;
  for (const unsigned char b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

bool is_of_a_launcher(std::string_view name) {
  for (const std::string_view prefix : {"SLURM_", "OMPI_", "PMIX_", "PMI_", "TORCHELASTIC_", "MASTER_"})
    if (name.starts_with(prefix)) return true;
  for (const std::string_view one :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TERN_RANKS"})
    if (name == one) return true;
  return false;
}

std::vector<std::string> environment_of(int rank, const LaunchConfig& config, const HostPort& store,
                                        const std::string& token) {
  std::vector<std::string> list;
  for (const auto& [name, value] : process_environment())
    if (!is_of_a_launcher(name) && !(config.again && name == "TERN_FAULT")) list.push_back(name + "=" + value);
  for (const auto& [name, number] : {std::pair{"RANK", rank},
                                     {"WORLD_SIZE", config.ranks},
                                     {"LOCAL_RANK", rank},
                                     {"LOCAL_WORLD_SIZE", config.ranks}})
    list.push_back(fmt::format("{}={}", name, number));
  list.push_back("TERN_STORE=" + text_of(store));
  list.push_back("TERN_RUN=" + token);
  return list;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become_rank(const char* program, char* const* argv, char* const* environment, pid_t parent,
                              pid_t group, int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody outlives the launcher
  if (::getppid() != parent) ::_exit(127);
  ::setpgid(0, group);  // Ctrl-C reaches the launcher alone, which passes it on once
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
  unblock_signals();
  if (output >= 0) {
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, 0), ::dup2(output, 1), ::dup2(output, 2);
  }
  ::execve(program, argv, environment);
  ::_exit(127);
}

class Launch {
 public:
  explicit Launch(const LaunchConfig& config)
      : config_(config),
        token_(random_token()),
        store_({"127.0.0.1", 0},
               {.size = config.ranks, .token = token_, .silence_s = config.silence_s, .grace_s = 0.5}) {}
  ~Launch() {
    for (RankProcess& r : ranks_)
      if (r.running) ::kill(r.pid, SIGKILL);
    for (RankProcess& r : ranks_)
      if (r.running) ::waitpid(r.pid, nullptr, 0);
  }
  Launch(const Launch&) = delete;

  LaunchEnd run() {
    for (int rank = 0; rank < config_.ranks; ++rank) start(rank);
    while (std::ranges::any_of(ranks_, &RankProcess::running)) {
      pass_signals();
      read_lines();
      collect();
      end_stragglers();
    }
    return end();
  }

 private:
  void start(int rank) {
    const std::string program = own_program();
    const std::vector<std::string> variables = environment_of(rank, config_, store_.address(), token_);
    const std::vector<char*> argv = pointers(config_.command), environment = pointers(variables);
    int pipe[2] = {-1, -1};
    if (rank > 0 && ::pipe2(pipe, O_CLOEXEC) != 0)
      throw Error(ErrorKind::bug, "launch: pipe: {}", std::strerror(errno));
    const pid_t parent = ::getpid(), group = ranks_.empty() ? 0 : ranks_.front().pid, pid = ::fork();
    if (pid == 0) become_rank(program.c_str(), argv.data(), environment.data(), parent, group, pipe[1]);
    if (pid < 0) throw Error(ErrorKind::does_not_fit, "launch: rank {}: {}; lower -n", rank, std::strerror(errno));
    ::setpgid(pid, group == 0 ? pid : group);  // also here: whoever comes first
    if (rank > 0) ::close(pipe[1]), ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    ranks_.push_back({.rank = rank, .pid = pid, .lines = Descriptor(pipe[0])});
  }

  void pass_signals() {
    if (passed_on_ || !stop_requested()) return;
    passed_on_ = true;
    for (const RankProcess& r : ranks_)
      if (r.running) ::kill(r.pid, stop_signal());
  }

  void read_lines() {
    std::vector<pollfd> polled;
    for (const RankProcess& r : ranks_)
      if (r.lines.open()) polled.push_back({r.lines.get(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), 20);
    for (RankProcess& r : ranks_) read_lines_of(r);
  }

  void read_lines_of(RankProcess& r) {
    char buffer[4096];
    ssize_t count = 0;
    while (r.lines.open() && (count = ::read(r.lines.get(), buffer, sizeof buffer)) != 0) {
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) break;
      r.said.append(buffer, static_cast<size_t>(count));
    }
    if (r.lines.open() && count == 0) r.lines.close();
    for (size_t end; (end = r.said.find('\n')) != std::string::npos; r.said.erase(0, end + 1))
      tell(r, r.said.substr(0, end));
    if (!r.lines.open() && !r.said.empty()) tell(r, std::exchange(r.said, {}));
  }

  // An error waits until it is known whether it only says that another rank has failed.
  void tell(RankProcess& r, const std::string& line) {
    if (line.starts_with("tern: "))
      r.error = line;
    else
      say(r.rank, line);
  }
  static void say(int rank, const std::string& line) {
    clear_progress_line();
    std::fprintf(stderr, "rank %d: %s\n", rank, make_printable(line).c_str());
  }

  void collect() {
    int status = 0;
    for (RankProcess& r : ranks_) {
      if (!r.running || ::waitpid(r.pid, &status, WNOHANG) != r.pid) continue;
      r.running = false;
      r.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      r.exit_code = r.signal != 0 ? 128 + r.signal : WEXITSTATUS(status);
      read_lines_of(r);
      if (r.exit_code == 0 || r.exit_code == static_cast<int>(ErrorKind::interrupted)) continue;
      if (ending_s_ == 0) ending_s_ = now_s() + kGrace;
      if (killed_ || stop_requested()) continue;
      const std::string what = r.signal != 0
                                   ? fmt::format("was killed by signal {} ({})", r.signal, ::strsignal(r.signal))
                                   : fmt::format("ended with exit code {}", r.exit_code);
      store_.fail(r.rank, fmt::format("rank {} {}", r.rank, what));
    }
  }

  void end_stragglers() {
    if (ending_s_ == 0 && store_.failure()) ending_s_ = now_s() + kGrace;
    if (ending_s_ == 0 || now_s() < ending_s_ || killed_) return;
    killed_ = true;
    for (const RankProcess& r : ranks_)
      if (r.running) ::kill(r.pid, SIGKILL);
  }

  LaunchEnd end() {
    constexpr int kPeer = static_cast<int>(ErrorKind::peer);
    LaunchEnd end;
    const std::optional<WorldFailure> failure = store_.failure();
    for (const RankProcess& r : ranks_) {  // errors of a rank's own
      const bool own = r.signal == 0 && r.exit_code != 0 && r.exit_code != kPeer;
      if (own && !r.error.empty() && r.exit_code != ranks_.front().exit_code) say(r.rank, r.error);
      if (own && (end.exit_code == 0 || end.exit_code == static_cast<int>(ErrorKind::interrupted)))
        end.exit_code = r.exit_code, end.told = true;
    }
    if (stop_requested() && end.exit_code == 0)
      for (const RankProcess& r : ranks_)
        if (r.signal == stop_signal()) end.exit_code = r.exit_code;
    if (end.exit_code != 0) return end;
    for (const RankProcess& r : ranks_)
      if (r.exit_code != 0) end.exit_code = kPeer;
    if (end.exit_code == 0) return end;
    end.lost = failure ? failure->reason : "a rank was lost";
    const RankProcess& first = ranks_.front();
    if (first.signal == 0 && first.exit_code == kPeer) return end;  // it has said so itself
    for (const RankProcess& r : ranks_)
      if (!r.error.empty()) {
        say(r.rank, r.error);
        break;
      }
    return end;
  }

  const LaunchConfig& config_;
  std::string token_;
  StoreServer store_;
  std::vector<RankProcess> ranks_;
  bool passed_on_ = false, killed_ = false;
  double ending_s_ = 0;  // when whoever is left is killed; 0: all is well
};

}  // namespace

LaunchEnd launch(const LaunchConfig& config) { return Launch(config).run(); }

}  // namespace tern
