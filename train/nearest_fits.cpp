#include "train/nearest_fits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "base/units.h"
#include "spec/recompute.h"
#include "train/settings_ranks.h"
#include "train/stored_run.h"

namespace tern {
namespace {

// A candidate's distance from what was asked for: results stay the same for the first two terms, then they do not.
struct Change {
  int halvings = 0, recompute = 0, bf16 = 0, seq_halvings = 0;
  int cost() const { return halvings + 2 * recompute + 8 * bf16 + 16 * seq_halvings; }
  bool no_more_than(const Change& o) const {
    return halvings <= o.halvings && recompute <= o.recompute && bf16 <= o.bf16 && seq_halvings <= o.seq_halvings;
  }
};

std::string flags_of(const TrainSettings& before, const TrainSettings& after) {
  std::string flags;
  const auto add = [&](std::string_view flag) { flags += (flags.empty() ? "" : " ") + std::string(flag); };
  if (after.micro_batch != before.micro_batch) add(fmt::format("--micro-batch {}", after.micro_batch));
  if (after.recompute != before.recompute) add(fmt::format("--recompute {}", name_of(after.recompute)));
  if (after.dtype != before.dtype) add(fmt::format("--dtype {}", name_of(after.dtype)));
  if (after.seq != before.seq) add(fmt::format("--seq {}", after.seq));
  return flags;
}

}  // namespace

std::vector<Alternative> nearest_fits(const ModelSpec& spec, const TrainSettings& s, int64_t process_bytes,
                                      int64_t budget, int count) {
  struct Candidate {
    Change change;
    Alternative alternative;
  };
  std::vector<Candidate> found;
  TrainSettings c = s;
  for (int seq_halvings = 0; seq_halvings <= 6; ++seq_halvings) {
    c.seq = s.seq >> seq_halvings;
    if (seq_halvings > 0 && c.seq < 32) break;
    for (int bf16 = 0; bf16 <= (s.dtype == DType::bf16 || s.perturbation ? 0 : 1); ++bf16)
      for (int recompute = 0; recompute <= (s.perturbation ? 0 : 2); ++recompute)
        for (int halvings = 0;; ++halvings) {
          c.micro_batch = s.micro_batch >> halvings;
          if (c.micro_batch < 1 || (s.update_in_backward && halvings > 0)) break;
          if (!sums_in_order(c)) continue;
          c.dtype = bf16 ? DType::bf16 : s.dtype;
          c.recompute = static_cast<Recompute>(recompute);
          if (c.recompute < s.recompute) break;
          const Change change{halvings, recompute - static_cast<int>(s.recompute), bf16, seq_halvings};
          const PredictedMemory memory = predict_memory(spec, c, process_bytes);
          if (memory.total() > budget || change.cost() == 0) continue;
          found.push_back({change, {flags_of(s, c), memory}});
          break;  // more halvings only go further
        }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.change.cost() < b.change.cost(); });
  // One that changes more than an earlier one in every respect tells nothing.
  std::vector<Candidate> kept;
  for (Candidate& candidate : found)
    if (std::none_of(kept.begin(), kept.end(),
                     [&](const Candidate& k) { return k.change.no_more_than(candidate.change); }))
      kept.push_back(candidate);
  for (Candidate& candidate : found) {  // not enough different ones: fill up with the next nearest
    if (kept.size() >= static_cast<size_t>(count)) break;
    if (std::none_of(kept.begin(), kept.end(),
                     [&](const Candidate& k) { return k.alternative.flags == candidate.alternative.flags; }))
      kept.push_back(candidate);
  }
  std::vector<Alternative> nearest;
  for (size_t i = 0; i < std::min(kept.size(), static_cast<size_t>(count)); ++i)
    nearest.push_back(std::move(kept[i].alternative));
  return nearest;
}

// The same run with the states in a file, if that fits.
static std::string states_on_disk_would_do(const ModelSpec& spec, const TrainSettings& s, int64_t process_bytes,
                                           int64_t budget) {
  TrainSettings stored = s;
  stored.states_on_disk = true;
  if (s.states_on_disk || !why_not_stored(stored).empty()) return "";
  const PredictedMemory memory = predict_memory(spec, stored, process_bytes);
  if (memory.total() > budget) return "";
  return fmt::format(
      "\nor --states disk, which gives the same bits from optimizer states in a file, read and written in each step: "
      "{}",
      format_bytes(memory.total()));
}

// A --memory that is enough for the next start too: the bytes of a process differ by a few MiB from one start to another.
static std::string enough_memory(const PredictedMemory& memory, int64_t process_bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return fmt::format("--memory {}MiB", ceil_div(memory.total() + std::max(8 * kMiB, process_bytes / 5), kMiB));
}

void require_fit(const ModelSpec& spec, const TrainSettings& s, const PredictedMemory& memory, int64_t process_bytes,
                 int64_t budget, const std::string& source) {
  if (memory.total() <= budget) return;
  std::string message = fmt::format("this run needs {} of memory, {} are {}\n{}", format_bytes(memory.total()),
                                    format_bytes(budget), source, describe(memory));
  if (s.plan)
    throw Error(ErrorKind::does_not_fit,
                "{}--plan {} decides how it is kept: plan for less memory, or train without it", message, s.plan_path);
  const std::vector<Alternative> nearest = nearest_fits(spec, s, process_bytes, budget);
  if (nearest.empty()) {
    message +=
        "neither micro-batches of one, nor --recompute full, nor bf16, nor shorter sequences make it fit; choose a "
        "smaller model";
  } else {
    message += "nearest settings that fit:";
    for (const Alternative& a : nearest)
      message += fmt::format("\n  {:<52} {:>10}", a.flags, format_bytes(a.memory.total()));
  }
  message += states_on_disk_would_do(spec, s, process_bytes, budget);
  if (s.memory_bytes) message += fmt::format("\nor {}, if the machine has it", enough_memory(memory, process_bytes));
  throw Error(ErrorKind::does_not_fit, "{}", message);
}

}  // namespace tern
