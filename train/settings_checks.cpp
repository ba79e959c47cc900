// Whether the options of a run go together: sizes, what a step in parts cannot do, evaluation, what is missing.
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/io.h"
#include "base/options.h"
#include "train/settings_impl.h"
#include "train/settings_ranks.h"
#include "train/stored_run.h"
#include "train/zeroth_run.h"

namespace tern {
namespace {

// Each layer is updated before the gradients of the layers below it exist, so nothing may need all of them, or more than one
// micro-batch's.
void check_update_in_backward(const Options& o, const TrainSettings& s) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorKind::usage, "--update-in-backward: {}", why); };
  for (const char* name : {"plan", "async", "aggregator", "outer"})
    if (o.given(name)) refuse(fmt::format("--{} needs gradients together; leave one of the two out", name));
  if (s.ranks > 1)
    refuse(fmt::format("the gradients of --ranks {} are summed first; leave one of the two out", s.ranks));
  if (s.sum_order.groups > 1) refuse("--sum-groups adds gradients up; leave one of the two out");
  if (s.micro_batch != s.batch)
    refuse(fmt::format("the gradients of --batch {} in --micro-batch {} are added up first; choose one size for both",
                       s.batch, s.micro_batch));
  if (s.optimizer.clip > 0)
    refuse(fmt::format("--clip {} needs the norm of all gradients before any weight changes; say --clip 0",
                       s.optimizer.clip));
  if (row_of(s.optimizer.rule).sums.over == UpdateSums::Over::model)
    refuse(
        fmt::format("--optimizer {} takes the norm of all gradients; choose another rule", name_of(s.optimizer.rule)));
}

// Rows are numbered with 32 bits, and the closed forms of bytes must stay within 64.
void check_sizes(const TrainSettings& s) {
  if (s.micro_batch > INT32_MAX / s.seq)
    throw Error(ErrorKind::usage,
                "--micro-batch: {} sequences of --seq {} are {} tokens at a time, more than tern numbers (2^31 - 1); "
                "lower --micro-batch or --seq",
                s.micro_batch, s.seq, s.micro_batch * s.seq);
  if (s.batch > (int64_t{1} << 40) / s.seq)
    throw Error(ErrorKind::usage, "--batch: {} sequences of --seq {} are more than 2^40 tokens a step; lower one",
                s.batch, s.seq);
}

bool has_stream(const Options& o) { return o.knows("stream") && o.has("stream"); }

void check_evaluation(const Options& o, const TrainSettings& s) {
  const bool no_evaluation = o.given("eval-every") && s.eval_every == 0;
  const bool streams = has_stream(o);  // each task has a test of its own
  for (const char* name : {"eval-every", "eval-batches"})
    if (s.valid_data.empty() && o.given(name) && !no_evaluation && !streams)
      throw Error(ErrorKind::usage,
                  "{}: there is nothing to evaluate on; give --valid-data, or --eval-every 0 for no evaluation",
                  o.value(name).where);
  for (const char* name : {"keep-best", "patience"}) {
    if (!o.given(name)) continue;
    const auto refuse = [&](std::string_view why) {
      throw Error(ErrorKind::usage, "{}: {}", o.value(name).where, why);
    };
    if (s.async) refuse("--async has no such evaluation; leave one of the two out");
    if (streams) refuse("--stream judges each task by its own test; leave one of the two out");
    if (s.valid_data.empty()) refuse("goes by the held-out loss; give --valid-data");
    if (s.eval_every == 0)
      refuse("goes by evaluations during training, and --eval-every 0 has none; leave one of the two out");
  }
}

// A run's directory holds a model and is none.
void check_is_no_run(const TrainSettings& s) {
  const auto there = [&](const char* name) { return real_io().stat(join_path(s.model, name)).has_value(); };
  if (s.model.empty() || !there("recipe.toml") || there("config.json")) return;
  throw Error(ErrorKind::usage,
              "{} is the directory of a run; `tern train {}` goes on with that run, and its model is {}", s.model,
              join_path(s.model, "recipe.toml"), join_path(s.model, "model"));
}

}  // namespace

void check_settings(const Options& o, const TrainSettings& s) {
  check_is_no_run(s);
  if (s.micro_batch > s.batch)
    throw Error(ErrorKind::usage, "--micro-batch: {} sequences, more than the {} of --batch", s.micro_batch, s.batch);
  check_ranks(s);
  if (s.context_ranks == 1 && o.knows("context-by") && o.given("context-by") && o.text("context-by") == "ring")
    throw Error(ErrorKind::usage, "{}: no ranks share out rows; give --context-parallel", o.value("context-by").where);
  if (s.tensor == 1 && o.knows("tp-comm-overlap") && o.flag("tp-comm-overlap"))
    throw Error(ErrorKind::usage, "{}: no ranks share out matrices; give --tensor-parallel",
                o.value("tp-comm-overlap").where);
  if (s.expert_ranks == 1 && o.knows("capacity-factor") && o.given("capacity-factor"))
    throw Error(ErrorKind::usage, "{}: no ranks share out experts; give --expert-parallel",
                o.value("capacity-factor").where);
  if (s.update_in_backward) check_update_in_backward(o, s);
  if (s.perturbation) check_zeroth_order(o, s);
  check_stored_states(s);
  if (s.adapter && s.adapter->preference && (s.batch % 2 != 0 || s.micro_batch != 1))
    throw Error(ErrorKind::usage,
                "--{}: {}; --method dpo learns from pairs of answers, each answer a micro-batch: an even --batch, and "
                "--micro-batch 1",
                s.micro_batch != 1 ? "micro-batch" : "batch", s.micro_batch != 1 ? s.micro_batch : s.batch);
  check_sizes(s);
  check_evaluation(o, s);
  if (s.dry_run) return;
  if (s.data.empty() && !has_stream(o))
    throw Error(
        ErrorKind::usage,
        "--data: missing; give a text, JSONL or token file to train on (or --dry-run to see what it would take)");
  if (s.output.empty())
    throw Error(ErrorKind::usage, "--output: missing; give a directory for checkpoints, logs and the trained model");
}

}  // namespace tern
