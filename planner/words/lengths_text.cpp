#include "planner/words/lengths_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "plan/window_mix.h"
#include "planner/words/plan_text.h"
#include "spec/attended_pairs.h"
#include "spec/unit_cost.h"

namespace tern {
namespace {

constexpr double kMost = 0.99;

// Kinds of attention that differ in their pairs, as they first occur.
std::vector<AttentionSpec> kinds_of(const ModelSpec& spec) {
  std::vector<AttentionSpec> out;
  for (const Unit& unit : spec.units) {
    const AttentionSpec* a = attention_of(unit);
    if (a && std::none_of(out.begin(), out.end(),
                          [&](const AttentionSpec& k) { return k.causal == a->causal && k.window == a->window; }))
      out.push_back(*a);
  }
  return out;
}

std::string name_of(const AttentionSpec& a) {
  if (!a.causal) return "both ways";
  return a.window > 0 ? fmt::format("a sliding window of {}", format_with_commas(a.window)) : "causal";
}

// How often ranks wait for each other: windows of a rank in between.
struct Wait {
  int64_t windows = 0;
  std::string_view when;
};
std::vector<Wait> waits_of(const Plan& p) {
  const auto sharded = [](const PlannedLayers& l) { return l.strategy.zero >= 2; };
  const bool experts = p.choice.mesh.expert > 1;
  const bool all = experts || std::all_of(p.layers.begin(), p.layers.end(), sharded);
  std::vector<Wait> out;
  if (!all) out.push_back({p.job.batch / p.choice.mesh.data, "a step"});
  // As many windows in a micro-batch as in a step: no other wait.
  const bool one_micro_batch = !out.empty() && p.choice.num_micro == 1;
  if (one_micro_batch) return out;
  if (experts || std::any_of(p.layers.begin(), p.layers.end(), sharded))
    out.push_back({p.choice.micro_batch, experts ? "a micro-batch (experts exchange rows)"
                                                 : "a micro-batch (layers of ZeRO 2 and 3 reduce with each)"});
  return out;
}

}  // namespace

std::vector<std::string> lengths_assumed(const Plan& p) {
  std::vector<std::string> out;
  if (!p.job.lengths.given() || p.job.lengths.batching == Batching::padded) return out;
  if (p.choice.num_stages > 1)
    out.emplace_back(
        "--lengths: micro-batches of a rank are priced alike, by the mean of their pairs; dearer ones among them "
        "stretch "
        "a pipeline further");
  if (p.choice.mesh.context > 1)
    out.emplace_back("--lengths: ranks of the context axis are taken to share a window's pairs evenly");
  if (p.error) out.emplace_back("--lengths: the error bar is of runs whose windows were one sequence each");
  return out;
}

Json lengths_json(const ModelSpec& spec, const Plan& p) {
  if (!p.job.lengths.given()) return {};
  const WindowMix& mix = *p.job.lengths.mix;
  const SequenceLengths& l = mix.lengths();
  const int64_t seq = p.job.seq;
  Json kinds = Json::array();
  for (const AttentionSpec& a : kinds_of(spec)) {
    Json slowest = Json::array();
    for (const Wait& w : waits_of(p)) {
      const SlowestRank s = mix.slowest(a, seq, p.choice.mesh.data, w.windows);
      slowest.push_back({{"data_ranks", p.choice.mesh.data},
                         {"windows_of_each", w.windows},
                         {"factor", s.factor},
                         {"standard_error", s.error},
                         {"sampled_steps", s.steps},
                         {"seed", s.steps > 0 ? Json(kSlowestRankSeed) : Json()}});
    }
    kinds.push_back({{"attention", name_of(a)},
                     {"pairs_per_window", mix.pairs(a, seq)},
                     {"real_pairs_per_window", mix.real_pairs(a, seq)},
                     {"most_pairs_of_a_window", mix.most_pairs(a, seq)},
                     {"pairs_of_one_sequence", attended_pairs(a, seq)},
                     {"slowest_rank", slowest}});
  }
  return {{"batching", name_of(mix.batching())},
          {"sequences", l.sequences},
          {"mean", l.mean()},
          {"quantile", kMost},
          {"quantile_length", l.quantile(kMost)},
          {"longest", l.longest()},
          {"real_tokens_per_second", p.tokens_per_second()},
          {"window_tokens_per_second", p.window_tokens_per_second()},
          {"padding_share", 1 - mix.real_tokens(seq) / static_cast<double>(seq)},
          {"cut_tokens_share", mix.cut_tokens(seq)},
          {"split_sequences_share", mix.split_sequences(seq)},
          {"attention", kinds}};
}

std::string lengths_words(const ModelSpec& spec, const Plan& p) {
  if (!p.job.lengths.given()) return "";
  const WindowMix& mix = *p.job.lengths.mix;
  const SequenceLengths& l = mix.lengths();
  const int64_t seq = p.job.seq;
  const bool packed = mix.batching() == Batching::packed;
  std::string text;
  const auto line = [&](std::string_view key, const std::string& words) { text += labelled(key, words); };
  line("lengths", fmt::format("{} of {:.4g} tokens on average (99 of 100 up to {}, longest {}) in windows of {}",
                              counted(l.sequences, "sequence"), l.mean(), format_with_commas(l.quantile(kMost)),
                              format_with_commas(l.longest()), format_with_commas(seq)));
  line("", packed ? "packed: laid end to end and cut into windows, attention inside each piece alone"
                  : "padded: one to a window, filled up or cut to its length; padding is computed like all else");
  const double real = mix.real_tokens(seq) / static_cast<double>(seq);
  line("real", fmt::format("{} real tokens/s, {} with padding: {} of the windows is padding, {} of all tokens are cut "
                           "away{}",
                           format_count(p.tokens_per_second()), format_count(p.window_tokens_per_second()),
                           percent_words(1 - real), percent_words(mix.cut_tokens(seq)),
                           packed ? fmt::format("; {} of the sequences lie in more than one window",
                                                percent_words(mix.split_sequences(seq)))
                                  : ""));
  const std::vector<AttentionSpec> kinds = kinds_of(spec);
  for (const AttentionSpec& a : kinds) {
    const auto whole = static_cast<double>(attended_pairs(a, seq));
    line("pairs", fmt::format("{} are computed in a window on average, {} of what one sequence of {} has, at most {}; "
                              "{} of them are real{}",
                              format_count(mix.pairs(a, seq)), percent_words(mix.pairs(a, seq) / whole),
                              format_with_commas(seq), format_count(static_cast<double>(mix.most_pairs(a, seq))),
                              percent_words(mix.real_pairs(a, seq) / mix.pairs(a, seq)),
                              kinds.size() > 1 ? fmt::format(" ({})", name_of(a)) : ""));
    if (p.choice.mesh.data == 1 || !packed) continue;
    for (const Wait& w : waits_of(p)) {
      const SlowestRank s = mix.slowest(a, seq, p.choice.mesh.data, w.windows);
      line("slowest",
           fmt::format("of {} data ranks with {} each {} the one with most pairs has {:.4g} × the mean, expected and "
                       "priced in ({})",
                       p.choice.mesh.data, counted(w.windows, "window"), w.when, s.factor,
                       s.steps > 0 ? fmt::format("± {:.2g}, {} sampled, seed {}", s.error, counted(s.steps, "step"),
                                                 kSlowestRankSeed)
                                   : "all windows are alike"));
    }
  }
  line("worst",
       fmt::format("a window has {} rows whatever lies in them: memory is that of the worst window, and of any",
                   format_with_commas(seq)));
  return text;
}

}  // namespace tern
