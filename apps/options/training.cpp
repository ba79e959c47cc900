// What train and adapt are asked for: the data, the amount, the update, how it is computed, and what a run leaves on disk.
#include "apps/options/rows.h"

#include <algorithm>

namespace tern {

// One row, one line.
// clang-format off
OptionRows training_data_rows() {
  using enum OptionType;
  return {
      {.name = "data", .verbs = "train adapt", .type = path, .unit = "PATH", .help = "training data: text, JSONL, a token file, a folder of texts, or a mixture: a .toml file of [[source]] with data = PATH and share = NUMBER", .env = "TERN_DATA_FILE"},
      {.name = "valid-data", .verbs = "train adapt", .type = path, .unit = "FILE", .help = "held-out data for evaluation during training"},
      {.name = "output", .verbs = "train adapt", .type = path, .unit = "DIR", .help = "run directory; an unfinished run in it goes on"},
      {.name = "tokenizer", .verbs = "train adapt", .type = path, .unit = "PATH", .help = "model directory or tokenizer file; not given: MODEL's own"},
      {.name = "from-scratch", .verbs = "train", .type = flag, .help = "start from random weights: MODEL is a bare config.json or a directory without weights"},
  };
}

OptionRows training_rows() {
  using enum OptionType;
  OptionRows rows = {
      // The amount and the rate.
      {.name = "seq", .verbs = "train adapt", .type = integer, .fallback = "256", .unit = "TOKENS", .help = "length of a training sequence", .min = 1, .max = kMaxCount},
      {.name = "context", .verbs = "train", .type = integer, .unit = "TOKENS", .help = "longest sequence the trained model declares (max_position_embeddings); not given: config.json's, and a longer --seq is refused", .min = 1, .max = kMaxCount},
      {.name = "batch", .verbs = "train adapt", .type = integer, .fallback = "32", .unit = "SEQUENCES", .help = "sequences per step", .min = 1, .max = kMaxCount},
      {.name = "micro-batch", .verbs = "train adapt", .type = integer, .unit = "SEQUENCES", .help = "sequences at a time, gradients add up; not given: --batch, or a group of it (--sum-groups)", .min = 1, .max = kMaxCount},
      {.name = "steps", .verbs = "train adapt", .type = integer, .fallback = "1000", .unit = "N", .help = "optimizer steps of the whole run", .min = 1, .max = 1e12},
      {.name = "learning-rate", .verbs = "train adapt", .type = real, .fallback = "3e-4", .unit = "RATE", .help = "peak learning rate", .min = 0, .max = 1e6},
      {.name = "min-learning-rate", .verbs = "train adapt", .type = real, .unit = "RATE", .help = "where the schedule ends; not given: a tenth of the peak", .min = 0, .max = 1e6},
      {.name = "schedule", .verbs = "train adapt", .type = choice, .fallback = "cosine", .help = "course of the rate after the warm-up", .choices = {"cosine", "linear", "constant", "wsd"}},
      {.name = "warmup-steps", .verbs = "train adapt", .type = integer, .fallback = "100", .unit = "N", .help = "steps over which the rate rises linearly from 0; of a run shorter than 1,000 steps a tenth of them, if it is not given, or is longer than --steps in a recipe", .min = 0, .max = 1e12},
      {.name = "decay-steps", .verbs = "train adapt", .type = integer, .unit = "N", .help = "length of the final fall of schedule wsd; not given: a tenth of --steps", .min = 0, .max = 1e12},
      // The update.
      {.name = "optimizer", .verbs = "train adapt", .type = choice, .fallback = "adamw", .help = "update rule", .choices = update_rule_names()},
      {.name = "clip", .verbs = "train adapt", .type = real, .unit = "NORM", .help = update_clip_help(), .min = 0, .max = 1e30},
      {.name = "gradients", .verbs = "train adapt", .type = choice, .fallback = "backward", .help = "where they come from: a backward pass, or zeroth-order (MeZO): each step takes the loss a little along a random direction and against it, and moves the weights by the slope; no gradients and no activations are kept. Then --optimizer is sgd without momentum unless given, and --states disk (train) keeps the layers' weights in the file too, so that a model larger than memory trains", .choices = {"backward", "zeroth-order"}},
      {.name = "perturbation", .verbs = "train adapt", .type = real, .fallback = "1e-3", .unit = "DISTANCE", .help = "of --gradients zeroth-order: how far each weight is moved, times a standard normal number; adapters take 1e-2", .min = 0, .max = 1e3, .above_min = true},
      // How it is computed.
      {.name = "dtype", .verbs = "train adapt", .type = choice, .fallback = "f32", .help = "type of weights and activations in the passes; master weights are f32 or wider", .choices = {"f32", "bf16", "f64"}},
      {.name = "recompute", .verbs = "train adapt", .type = choice, .fallback = "none", .help = "recompute activations in the backward pass instead of keeping them", .choices = {"none", "attention", "full"}},
      {.name = "update-in-backward", .verbs = "train", .type = flag, .help = "update each layer as soon as the backward pass has its gradients, which then end: the same bits in less memory; needs --clip 0, one micro-batch to a step and one rank"},
      {.name = "states", .verbs = "train", .type = choice, .fallback = "memory", .help = "where the optimizer's states lie: in memory, or in a file from which each step reads them part by part and to which it writes them back; the same bits", .choices = {"memory", "disk"}},
      {.name = "states-dir", .verbs = "train", .type = path, .unit = "DIR", .help = "of --states disk: a folder on the disk that holds the states; not given: --output"},
      {.name = "multiply", .verbs = "train adapt", .type = choice, .fallback = "fast", .help = "products of training: fast, as a library or tiles make them, or exact, by kernels whose bits no neighbour changes", .choices = {"fast", "exact"}},
      {.name = "plan", .verbs = "train", .type = path, .unit = "FILE", .help = "a plan that tern plan wrote, for one device or for several ranks (replicas, tensor, context and expert groups, stages): its batch, micro-batch, sequence length, type, optimizer and each layer's recomputation"},
      {.name = "shuffle", .verbs = "train adapt", .type = toggle, .fallback = "on", .help = "draw sequences in random order, anew each epoch"},
      {.name = "seed", .verbs = "train adapt", .type = integer, .fallback = "1", .unit = "N", .help = "of initial weights and of the order of data", .min = 0},
  };
  const auto optimizer = std::ranges::find(rows, std::string_view("optimizer"), &OptionSpec::name);
  const OptionRows of_rules = update_rule_rows();
  rows.insert(optimizer + 1, of_rules.begin(), of_rules.end());
  return rows;
}

OptionRows training_run_rows() {
  using enum OptionType;
  return {
      {.name = "checkpoint-every", .verbs = "train adapt", .type = integer, .fallback = "100", .unit = "STEPS", .help = "save a checkpoint every so many steps; 0: only at the end", .min = 0, .max = 1e12},
      {.name = "keep-checkpoints", .verbs = "train adapt", .type = integer, .fallback = "2", .unit = "N", .help = "newest checkpoints to keep", .min = 1, .max = kMaxCount},
      {.name = "resume", .verbs = "train adapt", .type = choice, .fallback = "auto", .help = "go on from the newest valid checkpoint: if there is one, only if there is one, or never", .choices = {"auto", "must", "never"}},
      {.name = "eval-every", .verbs = "train adapt", .type = integer, .fallback = "100", .unit = "STEPS", .help = "evaluate on --valid-data every so many steps; 0: only at the end", .min = 0, .max = 1e12},
      {.name = "eval-batches", .verbs = "train adapt", .type = integer, .fallback = "20", .unit = "N", .help = "batches per evaluation during training", .min = 1, .max = kMaxCount},
      {.name = "keep-best", .verbs = "train adapt", .type = flag, .help = "whenever the held-out loss is the lowest so far, write the model to OUT/best as well"},
      {.name = "patience", .verbs = "train adapt", .type = integer, .unit = "EVALUATIONS", .help = "end the run when so many evaluations in a row were not better than the best one; not given: it goes to its last step", .min = 1, .max = kMaxCount},
      {.name = "log-every", .verbs = "train adapt", .type = integer, .fallback = "10", .unit = "STEPS", .help = "write a log row every so many steps", .min = 1, .max = 1e12},
      {.name = "max-seconds", .verbs = "train adapt", .type = seconds, .unit = "TIME", .help = "save and stop with 75 after this time, such as 50m", .min = 0},
      {.name = "dry-run", .verbs = "train adapt", .type = flag, .help = "check and price everything, write and train nothing"},
      {.name = "trace", .verbs = "train adapt", .type = path, .unit = "FILE", .help = "write a Chrome trace of one step"},
  };
}
// clang-format on

}  // namespace tern
