#pragma once
// What a training run is asked for, as values.

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
#include "update/outer.h"
#include "update/robust.h"

namespace tern {

class Options;

/// --resume: from a checkpoint if there is one; only from a checkpoint; from none.
enum class Resume : uint8_t { automatic, must, never };

/// Adapters that are trained beside a frozen model.
struct AdapterSettings {
  PeftConfig config;
  AdapterInit init = AdapterInit::kaiming;
  // A PEFT directory of this configuration: the run begins with the adapter in it. Empty: the adapter begins as `init` says.
  std::string begin;
  bool trains_a = true;  // false: A stays as it begins
  // --pool: A reads means of so many neighbouring columns of x. adapt merge --offsets needs a multiple of the base's
  // group (u4, u3, u2: 64; Q4_1: 32). --repeat: each row of B counts for so many neighbouring rows of the weight.
  int64_t pool = 1, repeat = 1;
  bool elastic = false;  // --method irqlora: branches with the elastic connection (model/elastic.h)
  double b_rate = 1;     // --lora-plus-ratio: the learning rate of B divided by that of A
  // --dpo-beta of --method dpo: β of learning from pairs of answers (train/preference.h).
  std::optional<double> preference;
};

/// The settings of a run. A setting has the name of its option, unless its comment names another option.
struct TrainSettings {
  std::string model, tokenizer, data, valid_data, output, chat_template;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;  // of data that is text
  Answers answers = Answers::all;                 // of conversations: which answers are learned
  bool from_scratch = false;
  int64_t seq = 256, batch = 32, micro_batch = 32;  // seq in tokens; batch and micro_batch in sequences
  // The longest sequence that the trained model declares; absent: as MODEL does.
  std::optional<int64_t> context;
  int ranks = 1;   // of the whole run: pipeline devices × data shares × context_ranks × tensor
  int tensor = 1;  // --tensor-parallel: so many neighbouring ranks share out each matrix
  // --tp-comm-overlap: the exchanges of these ranks pass beside products (model/tensor_pairs.cpp).
  bool tensor_overlap = false;
  int context_ranks = 1;  // --context-parallel: so many ranks share out the rows of each micro-batch
  bool context_ring =
      false;             // --context-by ring: keys and values go round those ranks; false: ranks swap rows for heads
  int expert_ranks = 1;  // --expert-parallel: so many neighbouring ranks share out the experts of each mixture
  double capacity_factor = 1.25;  // of expert_ranks: room of a rank's experts in rows, as a multiple of an even share
  int zero = 0;                   // of every layer, unless a plan gives each layer a ZeRO stage (zero_of_units)
  SumOrder sum_order;             // --sum-groups, over the micro-batches of all data shares
  // Whether --sum-groups and the micro-batch were asked for; else they follow from the ranks (train/group_advice.h).
  bool fixed_groups = false, fixed_micro_batch = false;
  LearningRateSchedule schedule;  // total_steps: --steps
  UpdateConfig optimizer = update_config(UpdateRule::adamw);
  DType dtype = DType::f32;
  Recompute recompute = Recompute::none;
  bool update_in_backward = false;  // each layer is updated within the backward; then its gradients end
  // Of --gradients zeroth-order (train/zeroth_run.h); absent: gradients come from backward passes.
  std::optional<double> perturbation;
  bool states_on_disk = false;   // --states disk: the optimizer's states lie in a file (train/stored_run.h)
  std::string states_directory;  // --states-dir; empty: OUT
  Multiply multiply = Multiply::fast;
  bool shuffle = true;
  uint64_t seed = 1;
  int64_t checkpoint_every = 100, eval_every = 100, eval_batches = 20, log_every = 10;  // in steps, except eval_batches
  int keep_checkpoints = 2;
  bool keep_best = false;
  std::optional<int64_t> patience;  // in evaluations
  Resume resume = Resume::automatic;
  std::optional<int64_t> memory_bytes;  // --memory
  std::optional<double> max_seconds;
  bool dry_run = false;
  // If set, the plan gives each layer's recomputation; `recompute` is then planned_mode(plan), or Recompute::none if that is empty.
  std::optional<Plan> plan;
  std::string plan_path;               // --plan; empty: no plan
  std::optional<RobustConfig> robust;  // --aggregator; absent: gradients are summed
  // --async; absent: all ranks step together. If present, `ranks` is 1 and `batch` is the batch of one worker.
  std::optional<AsyncSettings> async;
  std::optional<AdapterSettings> adapter;  // absent: the model itself is trained
  std::string trace;                       // file; empty: none
  std::string recipe_toml;                 // the effective options with their origins, for OUT/recipe.toml
  std::optional<OuterConfig> outer;        // absent: ranks sum their gradients at each step
};

/// The settings that a verb's options ask for. Errors: usage, naming the option: --data or --output is missing (unless --dry-run), the
/// micro-batch is larger than the batch, the schedule does not fit the run, …; those of plan_option and apply_plan.
TrainSettings train_settings(const Options&);

/// A value that the verb derives for an option that is not given; and the warm-up of a recipe, where --steps of elsewhere are fewer.
struct DerivedValue {
  std::string_view name;
  std::string value;  // as one would type it
  std::string why;    // what the value follows from, for people
};
/// The derived values, in no fixed order. Errors: those of plan_option.
std::vector<DerivedValue> derived_values(const Options&);
/// A sentence for people about each derived value that takes the place of a given one. Errors: as above.
std::vector<std::string> overruled_options(const Options&);

std::string_view name_of(Multiply);  // "fast", "exact"
/// The value with this name. Errors: usage for any other word.
Recompute recompute_from_name(std::string_view);
Multiply multiply_from_name(std::string_view);
Resume resume_from_name(std::string_view);

}  // namespace tern
