#pragma once
// --async: a server takes gradients of workers one by one, in the order in which they arrive.

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

struct AsyncSettings {
  AsyncConfig rule;
  std::string replay;                                  // --replay: a file of arrivals; empty: as they come
  std::optional<std::pair<int, int64_t>> leaves = {};  // for tests: a worker, and after how many gradients it is gone
};

/// nullopt without --async. Errors: usage, naming an option that means nothing without --async, or that contradicts it
/// (--ranks, --sum-groups, --zero, --plan, --aggregator, --trace, another --optimizer than sgd, --dtype bf16, a momentum of
/// asgd).
std::optional<AsyncSettings> async_from(const Options&, const TrainSettings&);
/// Whether the verb was asked for --async; then --optimizer is sgd if it is not given.
bool asks_for_async(const Options&);
/// Whether momentum is 0 where --momentum is not given: --async-rule asgd.
bool async_without_momentum(const Options&);

/// Whether it is one of --workers, --async-rule, --replay.
bool is_async_option(std::string_view name);

/// The settings that a resumed run must have in common with its checkpoint.
Facts async_facts(const AsyncSettings&);

/// A file of arrivals: for each receipt the number of its worker, from 0, one on a line. Errors: bad_file naming the line.
std::string arrivals_text(const std::vector<int32_t>&);
std::vector<int32_t> parse_arrivals(std::string_view text, const std::string& path, int workers);

}  // namespace tern
