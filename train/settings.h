#pragma once
// What a training run is asked for, as values, and what of it may change when the run is resumed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "formats/chat/training.h"
#include "formats/data/text_data.h"
#include "formats/peft/config.h"
#include "model/initial_weights.h"
#include "model/unit.h"
#include "plan/plan.h"
#include "spec/recompute.h"
#include "spec/sum_order.h"
#include "spec/unit_cost.h"
#include "spec/update_rule.h"
#include "train/async_settings.h"
#include "train/learning_rate.h"
#include "train/manifest.h"
#include "update/outer.h"
#include "update/robust.h"

namespace tern {

class Options;

enum class Resume : uint8_t { automatic, must, never };

/// Adapters beside a frozen model.
struct AdapterSettings {
  PeftConfig config;
  AdapterInit init = AdapterInit::kaiming;
  std::string
      begin;  // a PEFT directory with this configuration whose adapter this one begins from; empty: it begins by
              // `init`
  bool trains_a = true;  // false: A stays as it begins
  int64_t pool = 1;   // columns of x whose mean A reads; 64 for qalora: one group of u4, u3 and u2, two groups of Q4_1
  double b_rate = 1;  // --lora-plus-ratio: B learns at so many times the rate
  std::optional<double> preference;  // --dpo-beta of --method dpo: it learns from pairs of answers (train/preference.h)
};

struct TrainSettings {
  std::string model, tokenizer, data, valid_data, output, chat_template;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;  // of data that is text
  Answers answers = Answers::all;                 // of conversations, those that are learned
  bool from_scratch = false;
  int64_t seq = 256, batch = 32, micro_batch = 32;  // batch and micro_batch in sequences
  std::optional<int64_t> context;                   // --context: what the model declares from now on
  int ranks = 1;          // --ranks: each has the model, or the layers of its stage, or (tensor parallelism) a part of
                          // each matrix
  int tensor = 1;         // --tensor-parallel: neighbours that share out each matrix
  int context_ranks = 1;  // --context-parallel: ranks that share out the rows of each micro-batch
  int zero = 0;           // --zero: of every layer, unless a plan says it for each layer
  SumOrder sum_order;     // --sum-groups, over the micro-batches of all ranks
  LearningRateSchedule schedule;  // total_steps: --steps
  UpdateConfig optimizer = update_config(UpdateRule::adamw);
  DType dtype = DType::f32;
  Recompute recompute = Recompute::none;
  bool update_in_backward = false;     // --update-in-backward: a layer's gradients end with its update
  std::optional<double> perturbation;  // of --gradients zeroth-order (train/zeroth_run.h); absent: of backward passes
  bool states_on_disk = false;         // --states disk: the optimizer's states lie in a file (train/stored_run.h)
  std::string states_directory;        // --states-dir; empty: OUT
  Multiply multiply = Multiply::fast;
  bool shuffle = true;
  uint64_t seed = 1;
  int64_t checkpoint_every = 100, eval_every = 100, eval_batches = 20, log_every = 10;
  int keep_checkpoints = 2;
  bool keep_best = false;           // --keep-best
  std::optional<int64_t> patience;  // --patience, in evaluations
  Resume resume = Resume::automatic;
  std::optional<int64_t> memory_bytes;  // --memory
  std::optional<double> max_seconds;
  bool dry_run = false;
  std::optional<Plan>
      plan;               // --plan: each layer recomputes as the plan says; `recompute` is then their common mode (none
                          // where they differ)
  std::string plan_path;  // empty: none
  std::optional<RobustConfig> robust;  // --aggregator; absent: gradients are summed
  std::optional<AsyncSettings>
      async;  // --async; absent: all ranks step together. Then `ranks` is 1, `batch` a worker's
  std::optional<AdapterSettings> adapter;  // absent: the model itself is trained
  std::string trace;                       // file; empty: none
  std::string recipe_toml;                 // the effective options with their origins, for OUT/recipe.toml
  std::optional<OuterConfig> outer;        // --outer; absent: ranks sum their gradients at each step
};

/// Reads the verb's options. Errors: usage, naming the option: missing --data or --output (unless --dry-run), a
/// micro-batch larger than the batch, a schedule that does not fit the run; those of --plan (train/plan_settings.h).
TrainSettings train_settings(const Options&);

/// Checks that the ranks can sum the step's micro-batches in the order asked for. Errors: usage, saying what does not
/// divide and what would do (train/nearest_order.h).
void check_ranks(const TrainSettings&);
/// Whether check_ranks would pass; for trying other sizes of micro-batches.
bool sums_in_order(const TrainSettings&);
/// The ZeRO stage of each unit: that of its layer in the plan, or the settings'.
std::vector<int> zero_of_units(const ModelSpec&, const TrainSettings&);
/// ZeRO's highest stage of any layer.
int deepest_zero(const TrainSettings&);
/// Whether each micro-batch's gradients are summed over ranks before the next micro-batch; where a rank has several, this
/// changes the order of sums.
bool sums_each_micro_batch(const TrainSettings&);
/// Devices that a plan cuts the layers over; 1: each rank has all of them.
inline int num_stage_devices(const TrainSettings& s) { return s.plan ? s.plan->choice.num_stages : 1; }
/// Into so many shares the micro-batches of a step are dealt; a share's ranks are one context group, or one of its tensor groups.
inline int data_parallel_size(const TrainSettings& s) {
  return s.ranks / num_stage_devices(s) / s.tensor / s.context_ranks;
}
/// Ranks that have the same layers and the same part of each matrix, Mesh::replicas: gradients are summed over them, ZeRO shares out
/// among them.
inline int num_sharers(const TrainSettings& s) { return data_parallel_size(s) * s.context_ranks; }
/// Sequences of a step in one share.
inline int64_t rank_batch(const TrainSettings& s) { return s.batch / data_parallel_size(s); }

/// What the verb works out for options that are not given, in the order of the table: `value` as one would type it,
/// `why` for people.
struct DerivedValue {
  std::string_view name;
  std::string value, why;
};
std::vector<DerivedValue> derived_values(const Options&);

std::string_view name_of(Multiply);  // "fast", "exact"
/// The value that an option's word stands for. Errors: usage for any other word.
Recompute recompute_from_name(std::string_view);
Multiply multiply_from_name(std::string_view);
Resume resume_from_name(std::string_view);

/// The settings as facts for a manifest, with what only the run knows: identities of model, data and tokenizer.
struct RunIdentity {
  std::string model;      // "config 1a2b3c4d", and the checksum of the weights that it started from, if any
  std::string tokenizer;  // hash
  std::string data;       // "12345 tokens, CRC-32C …"
};
Facts settings_facts(const TrainSettings&, const RunIdentity&);

/// What differs between a checkpoint's settings and the present ones.
/// refused: the run would not be the one that was begun:
///          model, data, tokenizer, seq, batch, seed, shuffle, dtype,
///          rates, schedule, optimizer; or a run made shorter than the checkpoint.
/// warned:  harmless, but the bits may differ from an uninterrupted run:
///          micro-batch, sum-groups, multiply, steps under a schedule that depends on
///          them; of `made_by`: version, instruction set, threads, multiplier.
struct SettingsChange {
  std::vector<std::string> refused, warned;  // "--seq: 128 in the checkpoint, 256 now"
};
SettingsChange compare_settings(const Manifest& checkpoint, const Facts& settings, const Facts& made_by);

}  // namespace tern
