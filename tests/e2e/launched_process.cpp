#include "tests/e2e/launched_process.h"

#include <cstdlib>
#include <exception>
#include <filesystem>

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
