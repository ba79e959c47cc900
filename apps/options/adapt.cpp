// What an adapter is and learns (adapt), how several become one (adapt combine), and one from two models (adapt extract).
#include "apps/options/rows.h"

#include "adapt/combine.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows adapt_rows() {
  using enum OptionType;
  return {
      {.name = "method", .verbs = "adapt", .type = choice, .fallback = "lora", .help = "lora: scale alpha/rank; rslora: alpha/√rank; qalora: lora whose A reads means of 64 inputs, so that adapt merge --offsets loses nothing; qblora: lora whose A reads means of 2 inputs and of which each row of B counts for 2 outputs, so that as many numbers make twice the rank; qablora: means of 64 inputs, and 2 outputs for each row of B; irqlora: lora with two fixed maps beside A and B (means of inputs), each weighed by one learned number; dora: lora, and the length of each row learned by itself; dpo: lora from pairs of answers, JSONL lines of prompt, chosen and rejected; with --stream seqlora: one adapter learns on; inflora: each task learns where old inputs do not feel it; gainlora: as inflora, but each task's branch stays by itself, weighed by a gate that reads the prompt; olora, ewc, replay, multitask: docs/continual.md", .choices = {"lora", "rslora", "qalora", "qblora", "qablora", "irqlora", "dora", "dpo", "seqlora", "inflora", "gainlora", "olora", "ewc", "replay", "multitask"}},
      {.name = "stream", .verbs = "adapt", .type = path, .unit = "TASKS.toml", .help = "learn these tasks one after another; all are judged after each"},
      {.name = "inflora-mode", .verbs = "adapt", .type = choice, .fallback = "code", .help = "--method inflora, gainlora: what is remembered of inputs, as InfLoRA's authors' code has it or as their paper", .choices = {"code", "paper"}},
      {.name = "energy", .verbs = "adapt", .type = real, .fallback = "0.95", .unit = "SHARE", .help = "--method inflora, gainlora: share of the first task's inputs that is protected; rises towards 1 over the stream", .min = 0, .max = 1},
      {.name = "statistics-windows", .verbs = "adapt", .type = integer, .fallback = "256", .unit = "N", .help = "--method inflora, gainlora, ewc: windows of each task's data that are looked at before and after it, at most", .min = 1, .max = kMaxCount},
      {.name = "gate-width", .verbs = "adapt", .type = integer, .fallback = "100", .unit = "N", .help = "--method gainlora: hidden numbers of a gate", .min = 1, .max = 65536},
      {.name = "gate-tokens", .verbs = "adapt", .type = integer, .fallback = "32", .unit = "N", .help = "--method gainlora: tokens of a text's window that gates read: not learned, and scored by the model as it came (in conversations: what comes before the answer)", .min = 1, .max = kMaxCount},
      {.name = "gate-updates", .verbs = "adapt", .type = choice, .fallback = "exact", .help = "--method gainlora: exact: a gate's steps change nothing of what it says of earlier tasks' inputs; rescaled: rows then get their lengths back, as the authors' code does", .choices = {"exact", "rescaled"}},
      {.name = "penalty", .verbs = "adapt", .type = real, .unit = "WEIGHT", .help = "--method olora, ewc: weight of what is added to the loss; not given: 0.5, 1000", .min = 0, .max = 1e12},
      {.name = "replay-share", .verbs = "adapt", .type = real, .fallback = "0.01", .unit = "SHARE", .help = "--method replay: share of each task's data that is kept and learned again", .min = 0, .max = 1},
      {.name = "references", .verbs = "adapt", .type = flag, .help = "--stream: also learn each task alone, and all together"},
      {.name = "rank", .verbs = "adapt", .type = integer, .fallback = "8", .unit = "R", .help = "rank of each adapter", .min = 1, .max = 65536},
      {.name = "alpha", .verbs = "adapt", .type = real, .unit = "A", .help = "an adapter counts alpha/rank times; not given: twice the rank (inflora, gainlora: the rank)", .min = 0, .max = 1e6},
      {.name = "pool", .verbs = "adapt", .type = integer, .unit = "N", .help = "--method qalora, qblora, qablora: A reads means of N neighbouring inputs; not given: 64, 2, 64. adapt merge --offsets wants a multiple of the base's groups: 64, of q4_1 and q5_1 32", .min = 1, .max = 1 << 20},
      {.name = "repeat", .verbs = "adapt", .type = integer, .unit = "N", .help = "--method qblora, qablora: each row of B counts for N neighbouring rows of the matrix; not given: 2", .min = 1, .max = 1 << 20},
      {.name = "adapter-dropout", .verbs = "adapt", .type = real, .fallback = "0", .unit = "SHARE", .help = "share of the inputs of A that a step leaves out, drawn by counted numbers: the same after a resume and with --recompute", .min = 0, .max = 1},
      {.name = "dpo-beta", .verbs = "adapt", .type = real, .fallback = "0.1", .unit = "BETA", .help = "of --method dpo: how fast a pair's loss falls with the gain of the chosen answer over the rejected one, both in log-probability beyond the model's without its adapter", .min = 0, .max = 1e6},
      {.name = "lora-plus-ratio", .verbs = "adapt", .type = real, .fallback = "1", .unit = "RATIO", .help = "B learns at RATIO times the rate of A (LoRA+, whose authors suggest 16)", .min = 0, .max = 1e6},
      {.name = "target", .verbs = "adapt adapt-extract", .type = list, .unit = "MODULES", .help = "names of matrices as the model's files have them, such as q_proj,v_proj; not given: all of the layers"},
      {.name = "save-modules", .verbs = "adapt", .type = list, .unit = "MODULES", .help = "modules trained as a whole beside the adapters and kept in their directory (PEFT's modules_to_save): tables of tokens or positions, and the last norm with the head, such as embed_tokens,lm_head,model.norm"},
      {.name = "begin", .verbs = "adapt", .type = path, .unit = "DIR", .help = "a PEFT directory whose adapter is trained on, with its rank, alpha and targets"},
      {.name = "init", .verbs = "adapt", .type = choice, .fallback = "true", .help = "how A begins (B begins with zeros): true: uniform within 1/√in; gaussian: normal, 1/rank; and how both begin: orthogonal: in directions of which A has one half and B the other; pissa: as the leading singular directions of the weight, which then stays without them; olora: as the first columns and rows of its orthogonal factors", .choices = {"true", "gaussian", "orthogonal", "pissa", "olora"}},
  };
}

OptionRows adapt_combine_rows() {
  using enum OptionType;
  return {
      {.name = "output", .verbs = "adapt-combine adapt-extract", .type = path, .unit = "DIR", .help = "the PEFT directory to write; must not be there yet"},
      {.name = "adapter", .verbs = "adapt-combine", .type = list, .unit = "DIR", .help = "a PEFT directory (LoRA), such as run/adapter; given once for each"},
      {.name = "shares", .verbs = "adapt-combine", .type = list, .unit = "NUMBERS", .help = "how much each adapter counts, such as 1,0.5; may be negative; not given: 1 each"},
      {.name = "method", .verbs = "adapt-combine", .type = choice, .fallback = "cat", .help = "cat: the sum, by factors beside each other; svd: the sum, cut to --rank; linear: A and B summed each by itself; ties: numbers that agree in sign; magnitude_prune, dare_linear: the largest numbers, or random ones; NAME_svd: of the products B·A, not of A and B; opcm: one after the other, each without what lies in the directions of those before", .choices = combination_names()},
      {.name = "density", .verbs = "adapt-combine", .type = real, .unit = "SHARE", .help = "of methods that leave numbers out: share of each adapter's that stay", .min = 0, .max = 1, .above_min = true},
      {.name = "majority-sign", .verbs = "adapt-combine", .type = choice, .fallback = "total", .help = "of ties: the sign of the sum, or the more frequent one", .choices = {"total", "frequency"}},
      {.name = "rank", .verbs = "adapt-combine", .type = integer, .unit = "R", .help = "of methods by singular values: rank of the result; not given: the largest among the adapters", .min = 1, .max = 65536},
      {.name = "rank", .verbs = "adapt-extract", .type = integer, .fallback = "16", .unit = "R", .help = "how many singular values of each matrix's difference are kept", .min = 1, .max = 65536},
      {.name = "seed", .verbs = "adapt-combine", .type = integer, .fallback = "1", .unit = "N", .help = "of the numbers that dare leaves out", .min = 0},
  };
}
// clang-format on

}  // namespace tern
