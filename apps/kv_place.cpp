#include "apps/kv_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/inference_weights.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/system.h"
#include "base/units.h"

namespace tern {
namespace {

// Of a read or write, however short: 0.1 ms at 1.3 GB/s. An assumption: what it is on this disk was not measured.
constexpr double kLatencyBytes = 128 << 10;

// A folder of the system whose files outlive a start of the machine: they lie on a disk, where /tmp often does not.
std::string usual_directory() {
  const char* given = std::getenv("TMPDIR");
  return given && *given ? given : "/var/tmp";
}

}  // namespace

KvPlace kv_place(const Options& options) {
  const std::string asked = options.text("kv-place");
  if (asked == "memory") {
    if (options.has("kv-dir"))
      throw Error(ErrorKind::usage, "--kv-dir {}: keys and values lie in memory; leave it out, or say --kv-place disk",
                  options.text("kv-dir"));
    return {};
  }
  KvPlace place{.memory = asked == "auto", .disk = true, .directory = usual_directory()};
  if (options.has("kv-dir")) place.directory = options.text("kv-dir");
  const bool chosen = !place.memory || options.has("kv-dir");
  DiskFacts facts;
  try {
    facts = read_disk_facts(place.directory);
  } catch (const Error&) {
    if (chosen) throw;
    return {};
  }
  place.free_bytes = facts.free_bytes;
  if (chosen) require_on_disk(place.directory, "--kv-dir");
  return facts.file_system == "tmpfs" ? KvPlace{} : place;
}

std::vector<int64_t> kv_layers_to_weigh(const KvPlace& place, const ModelDescription& model,
                                        const InferenceNeeds& needs) {
  std::vector<int64_t> layers;
  if (place.memory) layers.push_back(0);
  if (!place.disk) return layers;
  const KvShape shape = kv_shape(model.spec, model.dtype, needs);
  const int64_t all = kv_layers(shape);
  const auto file = [&](int64_t count) { return kv_file_bytes(shape, kv_pages(needs), count); };
  if (!place.memory) {
    if (all == 0) throw Error(ErrorKind::usage, "--kv-place disk: this model keeps no keys and values");
    if (file(all) > place.free_bytes)
      throw Error(ErrorKind::does_not_fit,
                  "--kv-place disk: keys and values take {}, {} has {} left; another --kv-dir?",
                  format_bytes(file(all)), place.directory, format_bytes(place.free_bytes));
    return {all};
  }
  const auto memory = [&](int64_t count) {
    return kv_memory_bytes(shape, kv_pages(needs), count) + (count > 0 ? kv_thread_bytes() : 0);
  };
  for (int64_t quarter = 1; quarter <= 4; ++quarter) {
    const int64_t count = all * quarter / 4;
    const bool gains = count > 0 && memory(count) < memory(layers.back());
    if (gains && file(count) <= place.free_bytes) layers.push_back(count);
  }
  return layers;
}

KvMoved kv_step_bytes(const ModelDescription& model, const InferenceNeeds& needs, int64_t past) {
  return kv_step_bytes(kv_shape(model.spec, model.dtype, needs), needs.kv_on_disk, needs.sequences, past);
}

double kv_step_cost(const ModelDescription& model, const InferenceNeeds& needs, int64_t past) {
  const auto moved = static_cast<double>(kv_step_bytes(model, needs, past).bytes());
  return moved + 2 * kLatencyBytes * static_cast<double>(needs.kv_on_disk);
}

bool kv_may_pay(const ModelDescription& model, const InferenceNeeds& needs, int64_t past) {
  const KvShape shape = kv_shape(model.spec, model.dtype, needs);
  const int64_t pages = kv_pages(needs);
  const int64_t freed = kv_memory_bytes(shape, pages, 0) - kv_memory_bytes(shape, pages, needs.kv_on_disk);
  return static_cast<double>(freed) > kv_step_cost(model, needs, past);
}

void tell_kv_before(const KvPlace& place, const ModelDescription& model, const InferenceNeeds& needs, int64_t past,
                    const InferenceWeights& weights) {
  if (needs.kv_on_disk == 0) return;
  const KvShape shape = kv_shape(model.spec, model.dtype, needs);
  const KvMoved moved = kv_step_bytes(model, needs, past);
  const double least_s = weights.least_pass_s(moved.bytes());
  log_info(
      "keys and values of {} of {} layers lie on disk ({}, {} in a file without a name): a step of {} with {} tokens "
      "each reads {} of them and writes {}{}",
      needs.kv_on_disk, kv_layers(shape), place.directory,
      format_bytes(kv_file_bytes(shape, kv_pages(needs), needs.kv_on_disk)), counted(needs.sequences, "sequence"), past,
      format_bytes(moved.read), format_bytes(moved.written),
      least_s > 0 ? fmt::format("; bound {:.3g} tok/s with these", static_cast<double>(needs.sequences) / least_s)
                  : "");
}

std::string kv_words(const KvOnDisk& disk) {
  const ImageCounts counts = disk.counts();
  const KvMoved moved{counts.read_bytes(), counts.written_bytes()}, planned = disk.planned();
  return fmt::format("keys and values of {} on disk: {} read and {} written in {} ({}); {} of waiting for them",
                     counted(disk.num_layers(), "layer"), format_bytes(moved.read), format_bytes(moved.written),
                     counted(counts.passes, "step"),
                     moved == planned ? std::string("as planned, to the byte")
                                      : fmt::format("planned: {} and {} bytes", planned.read, planned.written),
                     format_seconds(1e-9 * static_cast<double>(counts.waited_ns)));
}

Json kv_json(const KvOnDisk& disk) {
  const ImageCounts counts = disk.counts();
  return {{"layers", disk.num_layers()},
          {"file_bytes", disk.file_bytes()},
          {"steps", counts.passes},
          {"planned_read_bytes", disk.planned().read},
          {"planned_written_bytes", disk.planned().written},
          {"read_bytes", counts.read_bytes()},
          {"written_bytes", counts.written_bytes()},
          {"waited_s", 1e-9 * static_cast<double>(counts.waited_ns)}};
}

}  // namespace tern
