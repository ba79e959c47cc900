#pragma once
// The options of --async, under which a server takes the workers' gradients one by one, in the order in which they arrive.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/manifest.h"
#include "update/async_rule.h"

namespace tern {

class Options;
struct TrainSettings;

/// What --async and its options ask for.
struct AsyncSettings {
  AsyncConfig rule;
  // --replay: the file that gives the order of arrivals (train/arrivals_file.h); empty: gradients are taken as they come.
  std::string replay;
  // For tests: a worker, and the number of gradients after which it leaves.
  std::optional<std::pair<int, int64_t>> leaves = {};
};

/// nullopt without --async. Errors: usage, naming an option that means nothing without --async, or that contradicts it
/// (--ranks, --sum-groups, --zero, --plan, --aggregator, --trace, another --optimizer than sgd, --dtype bf16, a momentum of
/// asgd).
std::optional<AsyncSettings> async_from(const Options&, const TrainSettings&);
/// Whether --async was given. Then --optimizer is sgd unless it is given.
bool asks_for_async(const Options&);
/// Whether --async was given with --async-rule asgd. Then momentum is 0 unless --momentum is given.
bool async_without_momentum(const Options&);

/// Whether it is one of --workers, --async-rule, --replay.
bool is_async_option(std::string_view name);

/// The settings that a resumed run must have in common with its checkpoint.
Facts async_facts(const AsyncSettings&);

}  // namespace tern
