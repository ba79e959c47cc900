#include "apps/idle_options.h"

#include <fmt/format.h>

#include "apps/given_options.h"
#include "train/settings_ranks.h"

namespace tern {

std::vector<std::string> idle_words(const Options& o, const Environment& environment, const TrainSettings& s) {
  std::vector<std::string> words;
  const bool alone = s.ranks == 1 && !s.async;
  const std::string here = alone ? "this run has one rank" : "the ranks of this run are threads of one process";
  constexpr const char* kProcesses =
      "it is for ranks that are processes, which tern launch, srun, mpirun or torchrun start";
  if (is_asked_for(o, "comm-timeout") && o.value("comm-timeout").origin != Origin::environment)
    words.push_back(
        fmt::format("--comm-timeout {}: does nothing, as {}; {}", o.value("comm-timeout").text, here, kProcesses));
  if (!s.async && !s.plan && s.zero > 0 && num_sharers(s) == 1)
    words.push_back(fmt::format("--zero {}: does nothing, as {}; {}", s.zero,
                                alone ? here : "no two ranks of this run have the same part of the model",
                                alone ? "give --ranks" : "give more --ranks"));
  if (const auto fault = environment.find("TERN_FAULT"); fault != environment.end() && !fault->second.empty())
    words.push_back(fmt::format("TERN_FAULT={}: does nothing, as {}; {}", fault->second, here, kProcesses));
  return words;
}

}  // namespace tern
