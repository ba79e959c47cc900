// How several ranks train one model, in one step or apart, and how tern launch starts them.
#include "apps/options/rows.h"

#include <iterator>

#include "update/async_rule.h"
#include "update/outer_codec.h"
#include "update/robust.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows rank_rows() {
  using enum OptionType;
  return {
      {.name = "ranks", .verbs = "train", .type = integer, .fallback = "1", .unit = "N", .help = "train on so many ranks, threads of this process: each has a copy of the model and an equal share of every step's micro-batches; --threads is of each; with --plan as many as it has devices", .min = 1, .max = 1024},
      {.name = "sum-groups", .verbs = "train", .type = integer, .unit = "N", .help = "sum gradients in so many groups of micro-batches, then the groups in a tree: ranks of which each has 1, 2, 4, … groups give the same bits; not given: --ranks", .min = 1, .max = 1 << 20},
      {.name = "context-parallel", .verbs = "train", .type = integer, .fallback = "1", .unit = "N", .help = "ranks that share out the rows of each micro-batch, and what attention does (--context-by); N times --tensor-parallel divides --ranks", .min = 1, .max = 1024},
      {.name = "context-by", .verbs = "train", .type = choice, .fallback = "ulysses", .help = "of --context-parallel: in attention ranks swap rows for heads (ulysses), which N divides, or pass keys and values round a ring, whatever the heads; 2 N divides --seq then", .choices = {"ring", "ulysses"}},
      {.name = "expert-parallel", .verbs = "train", .type = integer, .fallback = "1", .unit = "N", .help = "ranks that share out the experts of each mixture: each has an N-th, and tokens go to the ranks of their experts; N divides the experts and the ranks that have the same layers", .min = 1, .max = 1024},
      {.name = "capacity-factor", .verbs = "train", .type = real, .fallback = "1.25", .unit = "X", .help = "of --expert-parallel: rows that the predicted memory of a rank's experts has room for, as a multiple of an even share; no row is dropped, what comes beyond takes more memory", .min = 1, .max = 64},
      {.name = "tensor-parallel", .verbs = "train", .type = integer, .fallback = "1", .unit = "N", .help = "ranks that share out each matrix, attention heads and the vocabulary, and the rows between layers; N divides --ranks, the rest are replicas", .min = 1, .max = 1024},
      {.name = "tp-comm-overlap", .verbs = "train", .type = flag, .help = "of --tensor-parallel: rows are exchanged by halves, beside the products that read or make them: the same bits; with --plan as the plan says"},
      {.name = "zero", .verbs = "train", .type = text, .fallback = "0", .unit = "N", .help = "ZeRO: what --ranks share out instead of keeping a copy each: 0 nothing, 1 the optimizer's state, 2 gradients too, summed over ranks with each micro-batch, 3 weights too, which come together for each pass through a layer; one rank has all of it"},
  };
}

OptionRows robust_rows() {
  using enum OptionType;
  return {
      {.name = "aggregator", .verbs = "train", .type = choice, .unit = "RULE", .help = "how the ranks' gradients become one where some ranks may send anything; not given: they are summed", .choices = {std::begin(kAggregatorNames), std::end(kAggregatorNames)}},
      {.name = "byzantine", .verbs = "train", .type = integer, .fallback = "0", .unit = "F", .help = "of --aggregator: ranks that may send anything", .min = 0, .max = 1024},
      {.name = "mix", .verbs = "train", .type = choice, .fallback = "none", .help = "of --aggregator: aggregate means of the ranks' vectors in their place, of each one's nearest (all but --byzantine) or of random pairs", .choices = {std::begin(kMixingNames), std::end(kMixingNames)}},
      {.name = "local-momentum", .verbs = "train", .type = real, .fallback = "0", .unit = "BETA", .help = "of --aggregator: each rank averages its gradients over steps before it sends them, u = BETA u + (1 - BETA) g", .min = 0, .max = 1, .below_max = true},
      {.name = "clip-radius", .verbs = "train", .type = real, .fallback = "1", .unit = "NORM", .help = "of --aggregator centered-clipping: how far from the last step's aggregate a rank's vector counts", .min = 0, .max = 1e30},
      {.name = "attack", .verbs = "train", .type = choice, .fallback = "none", .help = "of --aggregator, for studies: what the last ranks do to the run", .choices = {std::begin(kAttackNames), std::end(kAttackNames)}},
      {.name = "attackers", .verbs = "train", .type = integer, .unit = "N", .help = "of --attack: how many ranks do; not given: --byzantine", .min = 1, .max = 1023},
  };
}

OptionRows outer_rows() {
  using enum OptionType;
  return {
      {.name = "outer", .verbs = "train", .type = choice, .unit = "KIND", .help = "ranks train alone, each on its share of the batch, and rarely average: local-sgd takes the average, diloco takes an outer step towards it with Nesterov's momentum, noloco averages pairs drawn anew each time, co2 counts each average one round late; not given: they sum gradients at each step", .choices = {"local-sgd", "diloco", "noloco", "co2"}},
      {.name = "outer-every", .verbs = "train", .type = integer, .fallback = "500", .unit = "N", .help = "of --outer: steps of their own between two averages", .min = 1, .max = 1e12},
      {.name = "outer-rate", .verbs = "train", .type = real, .fallback = "0.7", .unit = "X", .help = "of --outer: how far the model in common goes towards the average (co2: 1 if not given)", .min = 0, .max = 1e6},
      {.name = "outer-momentum", .verbs = "train", .type = real, .fallback = "0.9", .unit = "X", .help = "of --outer: what is kept of the outer velocity (noloco, co2: 0.5 if not given)", .min = 0, .max = 1, .below_max = true},
      {.name = "outer-fragments", .verbs = "train", .type = integer, .fallback = "1", .unit = "N", .help = "of --outer diloco, noloco: average the layers in so many groups, each at another step", .min = 1, .max = 100000},
      {.name = "outer-delay", .verbs = "train", .type = integer, .fallback = "0", .unit = "N", .help = "of --outer diloco, noloco: steps after which an average counts", .min = 0, .max = 1e12},
      {.name = "outer-mix", .verbs = "train", .type = real, .fallback = "0", .unit = "X", .help = "of --outer diloco, noloco: the share of its own weights that a rank keeps beside the model in common", .min = 0, .max = 1, .below_max = true},
      {.name = "outer-codec", .verbs = "train", .type = choice, .fallback = "none", .help = "of --outer: send whole numbers of 8 or 4 bits, or signs, with a scale for 128 of them, or (powersgd) factors of matrices; what they leave out is added the next time", .choices = {std::begin(kOuterCodecNames), std::end(kOuterCodecNames)}},
      {.name = "outer-rank", .verbs = "train", .type = integer, .fallback = "4", .unit = "R", .help = "of --outer-codec powersgd: columns of a factor", .min = 1, .max = 65536},
      {.name = "outer-away", .verbs = "train", .type = text, .unit = "LIST", .help = "of --outer, for studies: ranks that are cut off from the others, and in which steps, such as 2@10-29,3@40-49"},
  };
}

OptionRows async_rows() {
  using enum OptionType;
  return {
      {.name = "async", .verbs = "train", .type = flag, .help = "a server takes the gradients of --workers one by one, as they arrive; a step is one gradient of --batch sequences; --optimizer is sgd"},
      {.name = "workers", .verbs = "train", .type = integer, .unit = "N", .help = "of --async: workers, threads of this process beside the server; --threads is of each", .min = 1, .max = 1023},
      {.name = "async-rule", .verbs = "train", .type = choice, .fallback = "ormo", .help = "of --async: what a late gradient does to the momentum: no momentum at all, what it would do on time, or (ormo, ormo-da) what it would have done when it was due", .choices = {std::begin(kAsyncRuleNames), std::end(kAsyncRuleNames)}},
      {.name = "replay", .verbs = "train", .type = path, .unit = "FILE", .help = "of --async: take gradients in the order of this file, such as the arrivals.txt of a run: the same bits"},
  };
}

OptionRows launch_rows() {
  using enum OptionType;
  return {
      {.name = "ranks", .verbs = "launch", .type = integer, .unit = "N", .help = "processes to start, one rank each", .min = 1, .max = 1024, .letter = 'n'},
      {.name = "comm-timeout", .verbs = "train launch", .type = seconds, .fallback = "30s", .unit = "TIME", .help = "ranks that are processes: one without a sign of life for so long is lost, and the run ends with 5; of srun, mpirun and torchrun, rank 0's counts", .min = 0.1, .max = 86400},
      {.name = "transport", .verbs = "train", .type = choice, .fallback = "tcp", .help = "what carries the messages of ranks that are processes: tcp, or mpi (Open MPI, of ranks that mpirun has started)", .choices = {"tcp", "mpi"}},
      {.name = "max-restarts", .verbs = "launch", .type = integer, .fallback = "0", .unit = "N", .help = "start all ranks again, from the last checkpoint if there is one, after a rank was lost: at most so often", .min = 0, .max = 1e6},
      {.name = "min-ranks", .verbs = "launch", .type = integer, .unit = "N", .help = "of --max-restarts: after a loss go on with half the ranks, down to so many; not given: with as many as before", .min = 1, .max = 1024},
  };
}
// clang-format on

}  // namespace tern
