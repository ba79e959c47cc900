#pragma once
// How a cluster serves the most users within the targets: the layout, the copies, and whether prompts get devices of
// their own.

#include <cstdint>
#include <optional>
#include <string>

#include "hardware/cluster.h"
#include "plan/inference.h"

namespace tern {

/// Copies of a layout, each with its users, on devices that read prompts, decode, or do both.
struct ServingRole {
  ServingLayout layout;
  int64_t copies = 0, users = 0;  // users: of the copy that has the most
  ServingMemory memory;
  ServingTimes times;
  int64_t devices() const { return layout.devices() * copies; }
};

/// How a cluster serves if requests arrive evenly.
struct ServingPlan {
  std::string node;
  bool split = false;             // prompts and decoding each have devices of their own
  ServingRole decode, prefill;    // prefill equals decode where both share the same devices
  int64_t users = 0;              // at once
  double ttft_s = 0, tpot_s = 0;  // as a user sees them; ttft_s if prompts differ: 99 of 100 wait no longer
  double mean_ttft_s = 0;
  double requests_per_s = 0;
  double tokens_per_s() const { return tpot_s > 0 ? static_cast<double>(users) / tpot_s : 0; }
};

/// The answer of plan_serving.
struct ServingAnswer {
  bool found = false;
  ServingPlan plan;                  // the best: most users within the targets, or the fastest for the users asked for
  std::optional<ServingPlan> other;  // the best of the other kind (shared or split), for comparison
  int64_t most_users = 0;  // users that fit on the devices, over all copies of the plan's layout, whatever the targets
  // Only if not found: why no layout serves the job.
  bool memory = false;  // true: model and users do not fit; false: they fit, but too slow for the targets
  ServingMemory nearest;
  ServingLayout nearest_layout;
  double best_ttft_s = 0, best_tpot_s = 0;  // the lowest of any layout, whatever the targets
  int64_t layouts = 0;                      // that were looked at
};
/// Looks at every legal layout (tensor × stages) on every group of nodes; a plan's copies lie within one group. Errors:
/// usage: an encoder, or a model with an encoder and a decoder.
ServingAnswer plan_serving(const ModelSpec&, const Cluster&, const InferenceJob&);

}  // namespace tern
