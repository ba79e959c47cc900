// A plan with keys and values on a disk, in words and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/plan_keys.h"
#include "base/options.h"
#include "base/text.h"
#include "base/units.h"

namespace tern {
namespace {

double ps_in_seconds(int64_t ps) { return static_cast<double>(ps) * 1e-12; }
std::string time_of(int64_t ps) { return format_seconds(ps_in_seconds(ps)); }

KvShape planned_shape(const ServingQuestion& q, const PlannedKeys& p) { return kv_shape(q.spec, q.job.dtype, p.needs); }

std::vector<int64_t> layers_on_disk(const KvShape& shape, int64_t count) {
  std::vector<int64_t> layers;
  const std::vector<bool> which = kv_layers_on_disk(shape, count);
  for (size_t i = 0; i < which.size(); ++i)
    if (which[i]) layers.push_back(static_cast<int64_t>(i));
  return layers;
}

// "0-3, 7, 9-10"
std::string in_ranges(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

int64_t weights_bytes(const PlannedKeys& p) { return std::llround(p.weights_bytes); }
double step_tokens_per_s(const PlannedKeys& p) {
  return static_cast<double>(p.needs.sequences) / ps_in_seconds(std::max<int64_t>(p.step.step_ps, 1));
}
int64_t moved_per_token(const PlannedKeys& p) { return (p.step.moved.bytes() + weights_bytes(p)) / p.needs.sequences; }
bool disk_binds(const PlannedKeys& p) { return p.step.disk_ps >= p.step.products_ps; }

std::string command_words(const ServingQuestion& q, const PlannedKeys& p) {
  const int64_t all = kv_layers(planned_shape(q, p)), layers = p.needs.kv_on_disk;
  const std::string place = layers == all && layers > 0 ? " --kv-place disk" : "";
  if (p.needs.sequences == 1) return fmt::format("{} generate MODEL{}", program_name(), place);
  return fmt::format("{} generate MODEL --prompts FILE --batch {}{}", program_name(), p.needs.sequences, place);
}

}  // namespace

std::string keys_text(const ServingQuestion& q, const PlannedKeys& p) {
  const KvShape shape = planned_shape(q, p);
  const std::vector<int64_t> layers = layers_on_disk(shape, p.needs.kv_on_disk);
  const ServingMemory& memory = p.plan.decode.memory;
  std::string text = "\n";
  if (layers.empty())
    text += labelled("keys", "and values lie in memory, in all layers");
  else
    text +=
        labelled("keys", fmt::format("and values of {} of {} layers lie on the disk (layers {}), {} in a file; memory "
                                     "has {}: the others, and two layers at a time",
                                     layers.size(), kv_layers(shape), in_ranges(layers), format_bytes(memory.kv_on[2]),
                                     format_bytes(memory.kv_on[0])));
  if (!layers.empty())
    text += labelled("disk", fmt::format("a step of {} with {} tokens each reads {} of them and writes {}",
                                         counted(p.needs.sequences, "sequence"), p.past,
                                         format_bytes(p.step.moved.read), format_bytes(p.step.moved.written)));
  if (p.weights_bytes > 0)
    text +=
        labelled("weights", fmt::format("{} of them are read for each step, as that moves the fewest bytes; times are "
                                        "bounds then: nothing takes less",
                                        format_bytes(weights_bytes(p))));
  else if (!p.weighed_weights)
    text += labelled("", "the model's weights are not here: it was not weighed whether to stream some of them instead");
  text +=
      labelled("", fmt::format("{} a token, at {:.2f} GB/s read and {:.2f} GB/s written in blocks of 1 MiB; shorter "
                               "runs of pages may be slower",
                               format_bytes(moved_per_token(p)), p.disk_read / 1e9, p.disk_write / 1e9));
  text += labelled("step",
                   fmt::format("{}{}: the disk {}, beside it products and memory {}; {} limits it; {} tokens/s "
                               "while no prompt is read",
                               p.weights_bytes > 0 ? "at least " : "", time_of(p.step.step_ps), time_of(p.step.disk_ps),
                               time_of(p.step.products_ps), disk_binds(p) ? "the disk" : p.plan.decode.times.binds,
                               format_count(step_tokens_per_s(p))));
  const std::string in_memory = time_of(p.step.products_ps);
  if (p.missing_bytes > 0)
    text += labelled("memory", fmt::format("{} more would hold everything: a step would then take {}",
                                           format_bytes(p.missing_bytes), in_memory));
  else
    text +=
        labelled("memory", fmt::format("would hold everything: without --kv-place disk a step takes {}", in_memory));
  return text + labelled("command", command_words(q, p));
}

Json keys_json(const ServingQuestion& q, const PlannedKeys& p) {
  const KvShape shape = planned_shape(q, p);
  const ServingMemory& memory = p.plan.decode.memory;
  Json out = {{"layers", p.needs.kv_on_disk},
              {"of_layers", kv_layers(shape)},
              {"layers_on_disk", layers_on_disk(shape, p.needs.kv_on_disk)},
              {"memory_bytes", memory.kv_on[0]},
              {"file_bytes", memory.kv_on[2]},
              {"users", p.needs.sequences},
              {"past_tokens", p.past},
              {"step_read_bytes", p.step.moved.read},
              {"step_written_bytes", p.step.moved.written},
              {"step_weights_bytes", weights_bytes(p)},
              {"bytes_per_token", moved_per_token(p)},
              {"disk_read_bytes_per_s", p.disk_read},
              {"disk_write_bytes_per_s", p.disk_write},
              {"disk_s", ps_in_seconds(p.step.disk_ps)},
              {"products_s", ps_in_seconds(p.step.products_ps)},
              {"step_s", ps_in_seconds(p.step.step_ps)},
              {"is_a_bound", p.weights_bytes > 0},
              {"tokens_per_s", step_tokens_per_s(p)},
              {"bound_by", disk_binds(p) ? "disk" : p.plan.decode.times.binds},
              {"weights_were_weighed", p.weighed_weights},
              {"memory_would_suffice", p.missing_bytes == 0},
              {"missing_memory_bytes", p.missing_bytes}};
  if (p.needs.kv_on_disk > 0) {
    const KvMoved prompt = prompt_moved(shape, p.needs.kv_on_disk, q.job.prompt, q.job.chunk);
    out["prompt_read_bytes"] = prompt.read, out["prompt_written_bytes"] = prompt.written;
  }
  return out;
}

}  // namespace tern
