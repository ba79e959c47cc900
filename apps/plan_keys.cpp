#include "apps/plan_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <numeric>
#include <vector>

#include "apps/inference_weights.h"
#include "apps/kv_place.h"
#include "apps/stream_bands.h"
#include "base/error.h"
#include "base/io.h"
#include "base/rounding.h"
#include "base/units.h"
#include "formats/gguf/model.h"
#include "hardware/machine.h"
#include "hardware/rates.h"
#include "infer/stream_times.h"
#include "plan/comm_cost.h"
#include "plan/decode_units.h"
#include "plan/serving_turns.h"
#include "spec/presets.h"
#include "store/image_pass_time.h"

namespace tern {
namespace {

constexpr int64_t kMostAtOnce = 1 << 16;  // users, as plan_serving has it

// A cache in which one layer keeps keys.
KvShape only_layer(const KvShape& shape, size_t layer) {
  KvShape one = shape;
  for (size_t i = 0; i < one.layers.size(); ++i)
    if (i != layer) one.layers[i] = {};
  return one;
}

int64_t moving_ps(const KvMoved& moved, const Machine& m) {
  return ps_of(static_cast<double>(moved.read), m.node.disk_read) +
         ps_of(static_cast<double>(moved.written), m.node.disk_write);
}

// What rows [past, past + count) of one sequence write.
int64_t rows_written(const KvShape& shape, int64_t on_disk, int64_t past, int64_t count) {
  const int64_t first = past % shape.page_tokens, pages = ceil_div(first + count, shape.page_tokens);
  KvView view{.page_tokens = shape.page_tokens,
              .past = {first},
              .begins = {0, pages},
              .pages = std::vector<int32_t>(static_cast<size_t>(pages)),
              .keys = {},
              .values = {},
              .code = shape.type};
  std::iota(view.pages.begin(), view.pages.end(), 0);
  std::vector<int> layers;
  const std::vector<bool> which = kv_layers_on_disk(shape, on_disk);
  for (size_t i = 0; i < which.size(); ++i)
    if (which[i]) layers.push_back(static_cast<int>(i));
  const std::vector<std::vector<KvCopy>> no_copies(layers.size());
  return plan_kv_pass(shape, pages, std::move(layers), view, std::vector<int64_t>{count}, no_copies).moved().written;
}

// What is asked, of one device.
struct KeysQuestion {
  const ServingQuestion& q;
  Machine machine;
  KvPlace place;
  ModelDescription model;  // its spec and type; its files if they are there
  bool files = false;
  std::vector<int64_t> prompt_ps;  // as prompt_compute_ps has them
  MemoryBudget budget;
};

// Needs, and the weights that they leave room for.
struct KeysRoom {
  InferenceNeeds needs;
  WeightsChoice weights;
  int64_t chunk = 0;
};

KeysRoom room_for_keys(const KeysQuestion& a, const InferenceNeeds& needs) {
  const InferenceJob& job = a.q.job;
  KeysRoom room{.needs = needs, .weights = {}, .chunk = job.chunk};
  room.weights.fit = inference_fit(a.model.spec, job.dtype, room.needs);
  if (room.weights.fit.total() <= a.budget.bytes) return room;
  if (a.files) {
    room.chunk = chunk_of_fewest_bytes(a.model, needs, a.budget, job.prompt, job.answer, job.chunk);
    room.needs.iteration_tokens = iteration_tokens(job.prompt, room.chunk, needs.sequences);
    room.weights.stream = stream_if_fits(a.model, room.needs, a.budget);
  }
  if (!room.weights.stream) {
    const KvShape shape = kv_shape(a.model.spec, job.dtype, needs);
    throw Error(
        ErrorKind::does_not_fit,
        "with keys and values of {} of {} layers on the disk of '{}' ({} of {} there) tern generate would need {} of "
        "memory for {}, there are {}{}",
        needs.kv_on_disk, kv_layers(shape), a.machine.node.name,
        format_bytes(kv_file_bytes(shape, kv_pages(needs), needs.kv_on_disk)), format_bytes(a.place.free_bytes),
        format_bytes(room.weights.fit.total()), counted(needs.sequences, "user"), format_bytes(a.budget.bytes),
        a.files ? ", and too few for its weights to stream" : "");
  }
  room.weights.fit = room.weights.stream->fit;
  return room;
}

// Where the fewest bytes are moved for a token, as `tern generate` chooses. Errors: does_not_fit.
KeysRoom best_room_for_keys(const KeysQuestion& a, int64_t users, int64_t past) {
  const InferenceNeeds needs = engine_needs(a.q.job, users);
  const KvShape shape = kv_shape(a.model.spec, a.q.job.dtype, needs);
  if (static_cast<double>(kv_pages(needs)) * static_cast<double>(shape.bytes_per_page()) > 0x1p62)
    throw Error(ErrorKind::does_not_fit, "keys and values of {} of {} tokens have more bytes than tern can count",
                counted(users, "user"), format_with_commas(needs.context));
  const int64_t all = kv_layers(shape);
  if (!a.place.memory && all > 0 && kv_file_bytes(shape, kv_pages(needs), all) > a.place.free_bytes)
    throw Error(ErrorKind::does_not_fit, "keys and values take {}, the disk of '{}' has {}",
                format_bytes(kv_file_bytes(shape, kv_pages(needs), all)), a.machine.node.name,
                format_bytes(a.place.free_bytes));
  const auto bytes = [&](const KeysRoom& room) {
    const double weights = room.weights.stream ? expected_bytes(*room.weights.stream, users) : 0;
    return weights + kv_step_cost(a.model, room.needs, past);
  };
  const auto make = [&](const InferenceNeeds& with) { return room_for_keys(a, with); };
  return room_of_fewest_bytes(a.place, a.model, needs, past, make, bytes);
}

// Bytes of a copy, with what does not lie in memory on the disk.
ServingMemory memory_of(const KeysQuestion& a, const KeysRoom& room) {
  const int64_t users = room.needs.sequences, layers = room.needs.kv_on_disk, pages = kv_pages(room.needs);
  const KvShape shape = kv_shape(a.model.spec, a.q.job.dtype, room.needs);
  ServingMemory x = serving_memory(a.q.spec, a.q.job, a.machine, {}, users);
  x.fits = true, x.missing_bytes = 0;
  x.kv = kv_memory_bytes(shape, pages, 0), x.kv_per_user = x.kv / users;
  x.kv_on = {kv_memory_bytes(shape, pages, layers), 0, layers > 0 ? kv_file_bytes(shape, pages, layers) : 0};
  x.weights_on = {x.weights, 0, 0};
  if (const auto& stream = room.weights.stream) {
    x.activations = room.weights.fit.activations;
    x.weights_on = {stream->fit.weights + stream->fit.ring, 0, stream->streamed_bytes + stream->experts.bytes};
  }
  return x;
}

// What the disk moves for a prompt: keys and values, and weights that stream for each chunk.
int64_t prompt_disk_ps(const KeysQuestion& a, const KeysRoom& room, int64_t prompt) {
  const KvShape shape = kv_shape(a.model.spec, a.q.job.dtype, room.needs);
  int64_t ps = 0;
  if (room.needs.kv_on_disk > 0)
    ps = moving_ps(prompt_moved(shape, room.needs.kv_on_disk, prompt, room.chunk), a.machine);
  if (const auto& stream = room.weights.stream) {
    const double chunks = static_cast<double>(ceil_div(prompt, room.chunk));
    ps += ps_of(chunks * expected_bytes(*stream, std::min(prompt, room.chunk)), a.machine.node.disk_read);
  }
  return std::min(ps, kMostPs);
}

// Times of the copy: those of a device that holds all, and the disk beside them.
ServingTimes times_of(const KeysQuestion& a, const KeysRoom& room, const ServingMemory& memory, const KeysStep& step) {
  const InferenceJob& job = a.q.job;
  ServingMemory resident = memory;
  resident.weights_on = {memory.weights, 0, 0}, resident.kv_on = {memory.kv, 0, 0};
  ServingTimes t = serving_times(a.q.spec, job, a.machine, {}, resident, room.needs.sequences, a.prompt_ps);
  std::vector<PromptGroup> prompts{{job.prompt, 1}};
  if (job.lengths) prompts = job.lengths->prompt_groups(), prompts.push_back({job.high_prompt(), 0});
  double mean = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    t.high_prefill_ps = std::max(a.prompt_ps[i], prompt_disk_ps(a, room, prompts[i].tokens));
    mean += prompts[i].share * static_cast<double>(t.high_prefill_ps);
  }
  t.prefill_ps = std::llround(std::min(mean, static_cast<double>(kMostPs)));
  t.decode_ps = step.step_ps, t.spilled_ps = step.disk_ps;
  if (step.disk_ps >= step.products_ps) t.binds = "disk";
  return t;
}

PlannedKeys planned_keys(const KeysQuestion& a, int64_t users) {
  const InferenceJob& job = a.q.job;
  PlannedKeys p;
  p.past = std::min(job.context(), static_cast<int64_t>(job.mean_prompt() + job.mean_answer() / 2));
  const KeysRoom room = best_room_for_keys(a, users, p.past);
  p.needs = room.needs, p.fit = room.weights.fit, p.weighed_weights = a.files;
  p.disk_read = a.machine.node.disk_read, p.disk_write = a.machine.node.disk_write;
  p.step = keys_step(a.q.spec, job, a.machine, room.needs, p.past);
  if (const auto& stream = room.weights.stream) p.weights_bytes = expected_bytes(*stream, users);
  if (p.weights_bytes > 0) {
    p.step.disk_ps = std::min(kMostPs, p.step.disk_ps + ps_of(p.weights_bytes, p.disk_read));
    p.step.step_ps = std::max(p.step.step_ps, p.step.disk_ps);
  }
  const ServingMemory memory = memory_of(a, room);
  const ServingRole role{{}, 1, users, memory, times_of(a, room, memory, p.step)};
  p.plan = {.node = a.machine.node.name, .decode = role, .prefill = role, .users = users};
  take_turns(job, p.plan);
  const InferenceFit whole = inference_fit(a.model.spec, job.dtype, engine_needs(job, users));
  p.missing_bytes = std::max<int64_t>(0, whole.total() - a.budget.bytes);
  return p;
}

// The most users for which `good` holds, which more users never make better; 0: not even one.
template <class Good>
int64_t most_at_once(const Good& good) {
  int64_t low = 0, high = 1;
  while (high <= kMostAtOnce && good(high)) low = high, high *= 2;
  high = std::min(high, kMostAtOnce + 1);
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (good(middle) ? low : high) = middle;
  }
  return low;
}

bool within_targets(const InferenceJob& job, const ServingPlan& p) {
  return (job.ttft_s == 0 || p.ttft_s <= job.ttft_s) && (job.tpot_s == 0 || p.tpot_s <= job.tpot_s);
}

// For the users that are asked for, or the most within the targets. Errors: does_not_fit: too little memory or disk; too slow.
PlannedKeys keys_of_users(const KeysQuestion& a) {
  const InferenceJob& job = a.q.job;
  PlannedKeys p = planned_keys(a, std::max<int64_t>(job.users, 1));
  if (!within_targets(job, p.plan))
    throw Error(ErrorKind::does_not_fit,
                "with keys and values of {} on the disk the first token takes {}, each after it {}: too slow",
                counted(p.needs.kv_on_disk, "layer"), format_seconds(p.plan.ttft_s), format_seconds(p.plan.tpot_s));
  if (job.users == 0)
    most_at_once([&](int64_t users) {
      try {
        PlannedKeys more = planned_keys(a, users);
        if (!within_targets(job, more.plan)) return false;
        p = std::move(more);
        return true;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::does_not_fit) throw;
        return false;
      }
    });
  p.most_in_memory =
      most_at_once([&](int64_t users) { return serving_memory(a.q.spec, job, a.machine, {}, users).fits; });
  return p;
}

bool has_files(const std::string& model) {
  if (preset_model(model)) return false;
  const auto holds = [&](const char* name) { return real_io().stat(join_path(model, name)).has_value(); };
  return holds("model.safetensors") || holds("model.safetensors.index.json") ||
         (is_gguf_path(model) && real_io().stat(model).has_value());
}

// The first that tern profile measured.
Machine measured_machine(const Cluster& c) {
  for (int group = 0; group < static_cast<int>(c.groups.size()); ++group)
    if (Machine m = machine_of(c, group); m.device.engine == "tern") return m;
  return machine_of(c, 0);
}

// Errors: usage: nothing can be priced.
KeysQuestion keys_question(const ServingQuestion& q, bool asked) {
  KeysQuestion a{
      .q = q, .machine = measured_machine(q.cluster), .place = {}, .model = {}, .prompt_ps = {}, .budget = {}};
  const NodeType& node = a.machine.node;
  if (a.machine.disk_capacity() <= 0 || node.disk_read <= 0 || node.disk_write <= 0)
    throw Error(ErrorKind::usage,
                "{}: node '{}' has no disk with its rates (keys disk, disk_read, disk_write), so nothing on it can be "
                "priced; `tern profile` measures this machine's",
                q.cluster.path.empty() ? q.cluster.name : q.cluster.path, node.name);
  a.place = {.memory = !asked, .disk = true, .directory = {}, .free_bytes = a.machine.disk_capacity()};
  a.model.spec = q.spec, a.model.dtype = q.job.dtype, a.model.dir.path = q.model;
  a.files = q.job.dtype != DType::f64 && has_files(q.model);
  if (a.files && holds_coded(q.spec, q.model))
    throw Error(ErrorKind::usage,
                "{}: tern generate keeps coded matrices coded where decoded ones do not fit, and products with them "
                "have no rate in a cluster file",
                q.model);
  a.prompt_ps = prompt_compute_ps(q.spec, q.job, a.machine, {});
  a.budget = {.bytes = a.machine.device_capacity(), .source = "the cluster file"};
  return a;
}

}  // namespace

InferenceNeeds engine_needs(const InferenceJob& job, int64_t users) {
  return {.context = job.context(),
          .sequences = users,
          .page_tokens = job.page,
          .iteration_tokens = iteration_tokens(job.prompt, job.chunk, users),
          .logit_rows = users,
          .kv = job.kv == kv_kept_as(job.dtype) ? std::nullopt : std::optional(job.kv)};
}

KeysStep keys_step(const ModelSpec& spec, const InferenceJob& job, const Machine& m, const InferenceNeeds& needs,
                   int64_t past) {
  const KvShape shape = kv_shape(spec, job.dtype, needs);
  const std::vector<bool> on_disk = kv_layers_on_disk(shape, needs.kv_on_disk);
  const std::vector<int64_t> units = decode_unit_ps(spec, job, m, needs.sequences);
  KeysStep step;
  std::vector<ImageStep> images;
  int64_t since = 0;  // the image before
  for (size_t u = 0; u < units.size(); ++u) {
    const AttentionSpec* attention = attention_of(spec.units[u]);
    const size_t layer = attention && !attention->cross ? static_cast<size_t>(spec.units[u].layer) : on_disk.size();
    step.products_ps += units[u];
    if (layer == on_disk.size() || !on_disk[layer]) {
      since += units[u];
      continue;
    }
    const KvMoved moved = kv_step_bytes(only_layer(shape, layer), 1, needs.sequences, past);
    step.moved.read += moved.read, step.moved.written += moved.written;
    images.push_back({.read_ps = ps_of(static_cast<double>(moved.read), m.node.disk_read),
                      .write_ps = ps_of(static_cast<double>(moved.written), m.node.disk_write),
                      .before_ps = since,
                      .held_ps = units[u]});
    step.disk_ps += images.back().read_ps + images.back().write_ps;
    since = 0;
  }
  step.step_ps = std::min(kMostPs, image_pass_times(images, since, kKvSlots).end_ps);
  step.disk_ps = std::min(kMostPs, step.disk_ps), step.products_ps = std::min(kMostPs, step.products_ps);
  return step;
}

KvMoved prompt_moved(const KvShape& shape, int64_t on_disk, int64_t prompt, int64_t chunk) {
  KvMoved moved;
  std::map<std::pair<int64_t, int64_t>, int64_t> written;  // by place in a page, and rows
  for (int64_t at = 0; at < prompt; at += chunk) {
    const int64_t rows = std::min(chunk, prompt - at);
    if (at > 0) moved.read += kv_step_bytes(shape, on_disk, 1, at).read;
    const auto [known, fresh] = written.try_emplace({at % shape.page_tokens, rows}, 0);
    if (fresh) known->second = rows_written(shape, on_disk, at, rows);
    moved.written += known->second;
  }
  return moved;
}

KeysAnswer plan_keys(const ServingQuestion& q, const std::string& place, const ServingAnswer& in_memory) {
  const bool asked = place == "disk", lacks_memory = !in_memory.found && in_memory.memory;
  if (!q.tern || q.vllm || place == "memory" || !(asked || lacks_memory)) return {};
  try {
    return {.keys = keys_of_users(keys_question(q, asked)), .reason = {}};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::does_not_fit && error.kind() != ErrorKind::usage) throw;
    if (asked) throw Error(error.kind(), "plan: --kv-place disk: {}", error.what());
    return {.keys = {}, .reason = error.what()};
  }
}

}  // namespace tern
