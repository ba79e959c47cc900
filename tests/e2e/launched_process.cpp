#include "tests/e2e/launched_process.h"

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/io.h"

namespace tern {

Words launched(int ranks, const Words& command, const Words& options) {
  Words all{TERN_PROGRAM, "launch", "-n", std::to_string(ranks), "--comm-timeout", "2"};
  all.insert(all.end(), options.begin(), options.end());
  all.emplace_back("--");
  all.insert(all.end(), command.begin() + 1, command.end());
  return all;
}

Words plan_command(const TinyRun& tiny, const std::string& fix, const std::string& file, const Words& more) {
  Words all{TERN_PROGRAM, "plan", tiny.root() + "/config.json", "--hardware", "h100"};
  all.insert(all.end(), {"--seq", "16", "--dtype", "f32", "--fix", fix, "--output", file});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TakenPort::TakenPort(int port)
    : listener_(listen_at({"127.0.0.1", port}, 8, &before_)),
      number_(before_ ? port : own_address(listener_).port),
      answers_([this](const std::stop_token& end) {
        while (!before_ && !end.stop_requested())
          if (wait_readable(listener_.get(), 0.05)) accept_at(listener_);  // and hangs up
      }) {}

std::map<std::string, std::string> torchrun_variables(int rank, int ranks, int master_port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(ranks)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(master_port)},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_RESTART_COUNT", "0"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"OMP_NUM_THREADS", "1"}};
}

Together run_together(const TinyRun& tiny, const std::vector<WithVariables>& processes) {
  std::vector<std::unique_ptr<Child>> children;
  const auto file = [&](size_t i) { return tiny.root() + "/said-" + std::to_string(i); };
  for (size_t i = 0; i < processes.size(); ++i) {
    Words words{"/usr/bin/env"};
    for (const auto& [name, value] : processes[i].variables) words.push_back(name + "=" + value);
    words.insert(words.end(), processes[i].command.begin(), processes[i].command.end());
    children.push_back(std::make_unique<Child>(words, file(i)));
  }
  Together ended;
  for (size_t i = 0; i < processes.size(); ++i)
    ended.codes.push_back(children[i]->wait()), ended.said.push_back(real_io().read(file(i)));
  return ended;
}

std::vector<pid_t> processes_of(const std::string& word, const std::string& rank) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string line, variables;
    try {
      line = real_io().read("/proc/" + name + "/cmdline"), variables = real_io().read("/proc/" + name + "/environ");
    } catch (const std::exception&) { continue; }  // it has just ended
    const std::string wanted = std::string("\0RANK=", 6) + rank + '\0';
    if (line.find(word) != std::string::npos && (rank.empty() || ('\0' + variables).find(wanted) != std::string::npos))
      found.push_back(std::atoi(name.c_str()));
  }
  return found;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool none_left(const std::string& word, double within_s) {
  const auto begin = std::chrono::steady_clock::now();
  while (!processes_of(word).empty())
    if (seconds_since(begin) > within_s) return false;
  return true;
}

EndlessRun::EndlessRun(int ranks, const Words& options)
    : child(launched(ranks,
                     tiny.command(tiny.out(1), {"--micro-batch", "1", "--sum-groups", "4", "--steps", "100000000",
                                                "--schedule", "constant"}),
                     options),
            said) {
  while (child.running() && !real_io().stat(out + "/checkpoints/step-3")) real_clock().sleep_ns(1'000'000);
}

std::string EndlessRun::text() const { return real_io().read(said); }

pid_t EndlessRun::rank(int r) const {
  const std::vector<pid_t> found = processes_of(out, std::to_string(r));
  return found.empty() ? -1 : found.front();
}

}  // namespace tern
