#include "plan/pinned.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

#include "base/error.h"
#include "base/text.h"

namespace tern {
namespace {

constexpr int64_t kMostDegree = int64_t{1} << 24;
constexpr std::array kHow{false, true};
std::string_view ring_or_ulysses(bool ulysses) { return ulysses ? "ulysses" : "ring"; }

// One axis: how its value is read into the pins, and told.
struct Axis {
  std::string_view name;
  std::function<void(PinnedAxes&, std::string_view)> read;
  std::function<std::string(const PinnedAxes&)> told;  // "" where it is free
  std::function<void(PinnedAxes&, const PinnedAxes&)> copy;
};

[[noreturn]] void refuse(std::string_view name, std::string_view value, const std::string& expected) {
  throw Error(ErrorKind::usage, "--fix: {}={}: expected {}", name, make_printable(value), expected);
}

int64_t whole_number(std::string_view name, std::string_view value, int64_t least, int64_t most) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc{} || end != value.data() + value.size() || n < least || n > most)
    refuse(name, value, fmt::format("a whole number from {} to {}", least, most));
  return n;
}

template <class T>
Axis number(std::string_view name, std::optional<T> PinnedAxes::*at, int64_t least = 1, int64_t most = kMostDegree) {
  return {name, [=](PinnedAxes& p, std::string_view v) { p.*at = static_cast<T>(whole_number(name, v, least, most)); },
          [=](const PinnedAxes& p) { return p.*at ? fmt::format("{}", *(p.*at)) : std::string(); },
          [=](PinnedAxes& to, const PinnedAxes& from) { to.*at = from.*at; }};
}

template <class T, size_t N, class Name>
Axis word(std::string_view name, std::optional<T> PinnedAxes::*at, const std::array<T, N>& values,
          const Name& name_of) {
  return {name,
          [=](PinnedAxes& p, std::string_view v) {
            std::vector<std::string> names;
            for (const T x : values) {
              if (name_of(x) == v) return void(p.*at = x);
              names.emplace_back(name_of(x));
            }
            refuse(name, v, "one of " + join(names, ", ") + did_you_mean(v, {names.begin(), names.end()}));
          },
          [=](const PinnedAxes& p) { return p.*at ? std::string(name_of(*(p.*at))) : std::string(); },
          [=](PinnedAxes& to, const PinnedAxes& from) { to.*at = from.*at; }};
}

const std::vector<Axis>& axes() {
  static const std::vector<Axis> all{
      number("tp", &PinnedAxes::tensor),
      number("cp", &PinnedAxes::context),
      word("cp-by", &PinnedAxes::ulysses, kHow, ring_or_ulysses),
      number("dp", &PinnedAxes::data),
      number("ep", &PinnedAxes::expert),
      number("etp", &PinnedAxes::expert_tensor),
      number("pp", &PinnedAxes::stages),
      number("chunks", &PinnedAxes::chunks),
      word("schedule", &PinnedAxes::schedule, kPipelineSchedules, [](PipelineSchedule s) { return name_of(s); }),
      number("micro-batch", &PinnedAxes::micro_batch),
      number("micro-batches", &PinnedAxes::micro_batches),
      number("zero", &PinnedAxes::zero, 0, 3),
      word("recompute", &PinnedAxes::recompute, kRecomputes, [](Recompute r) { return name_of(r); }),
      word("states", &PinnedAxes::states, kTierValues, [](Tier t) { return name_of(t); }),
      word("activations", &PinnedAxes::activations, kTierValues, [](Tier t) { return name_of(t); }),
      {"layers",
       [](PinnedAxes& p, std::string_view v) {
         if (v != "even") refuse("layers", v, "even");
         p.even = true;
       },
       [](const PinnedAxes& p) { return std::string(p.even ? "even" : ""); },
       [](PinnedAxes& to, const PinnedAxes& from) { to.even = from.even; }},
  };
  return all;
}

std::vector<std::string_view> axis_names() {
  std::vector<std::string_view> names;
  for (const Axis& a : axes()) names.push_back(a.name);
  return names;
}

const Axis& axis_named(std::string_view name) {
  const auto axis = std::find_if(axes().begin(), axes().end(), [&](const Axis& a) { return a.name == name; });
  if (axis != axes().end()) return *axis;
  const auto names = axis_names();
  throw Error(ErrorKind::usage, "--fix: '{}' is no axis; there are {}{}", make_printable(name),
              join({names.begin(), names.end()}, ", "), did_you_mean(name, names));
}

bool is(const auto& pin, auto value) { return !pin || static_cast<int64_t>(*pin) == static_cast<int64_t>(value); }

bool is_block(const ModelSpec& spec, const Layer& l) { return spec.units[static_cast<size_t>(l.first)].layer >= 0; }

// Where the blocks begin and end; nothing if something else stands between them.
std::optional<std::pair<size_t, size_t>> blocks_of(const ModelSpec& spec, const std::vector<Layer>& layers) {
  size_t begin = 0, end = layers.size();
  while (begin < end && !is_block(spec, layers[begin])) ++begin;
  while (end > begin && !is_block(spec, layers[end - 1])) --end;
  for (size_t u = begin; u < end; ++u)
    if (!is_block(spec, layers[u])) return std::nullopt;
  return std::pair(begin, end);
}

}  // namespace

bool PinnedAxes::any() const { return !(*this == PinnedAxes{}); }

PinnedAxes parse_pinned(std::string_view text) {
  PinnedAxes p;
  std::vector<std::string_view> seen;
  for (const std::string_view entry : split(text, ',')) {
    const std::string_view pin = trim(entry);
    const size_t at = pin.find('=');
    if (at == std::string_view::npos)
      throw Error(ErrorKind::usage, "--fix: '{}': expected AXIS=VALUE, such as tp=8,pp=4", make_printable(pin));
    const std::string_view name = trim(pin.substr(0, at));
    const Axis& axis = axis_named(name);
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      throw Error(ErrorKind::usage, "--fix: {} is given twice", name);
    seen.push_back(axis.name);
    axis.read(p, trim(pin.substr(at + 1)));
  }
  return p;
}

std::string to_string(const PinnedAxes& p) {
  std::vector<std::string> words;
  for (const Axis& a : axes())
    if (const std::string value = a.told(p); !value.empty()) words.push_back(fmt::format("{}={}", a.name, value));
  return join(words, ",");
}

std::vector<std::string> axes_given(const PinnedAxes& p) {
  std::vector<std::string> names;
  for (const Axis& a : axes())
    if (!a.told(p).empty()) names.emplace_back(a.name);
  return names;
}

std::string axis_value(const PinnedAxes& p, std::string_view axis) { return axis_named(axis).told(p); }

PinnedAxes without_axis(const PinnedAxes& p, std::string_view axis) { return with_axis(p, {}, axis); }

PinnedAxes with_axis(const PinnedAxes& p, const PinnedAxes& from, std::string_view axis) {
  PinnedAxes out = p;
  axis_named(axis).copy(out, from);
  return out;
}

PinnedAxes axes_of(const OuterChoice& c, const std::vector<PlannedLayers>& layers) {
  const Mesh& m = c.mesh;
  PinnedAxes p{.tensor = m.tensor, .context = m.context, .data = m.data, .expert = m.expert};
  p.expert_tensor = m.expert_tensor, p.stages = c.num_stages, p.chunks = c.chunks_per_stage;
  p.micro_batch = c.micro_batch, p.micro_batches = c.num_micro;
  if (m.context > 1) p.ulysses = m.ulysses;
  if (c.num_stages > 1) p.schedule = c.schedule;
  if (layers.empty()) return p;
  const LayerStrategy& s = layers.front().strategy;
  const auto all = [&](auto LayerStrategy::*part) {
    return std::all_of(layers.begin(), layers.end(), [&](const auto& l) { return l.strategy.*part == s.*part; });
  };
  if (all(&LayerStrategy::zero)) p.zero = s.zero;
  if (all(&LayerStrategy::recompute)) p.recompute = s.recompute;
  if (all(&LayerStrategy::states)) p.states = s.states;
  if (all(&LayerStrategy::activations)) p.activations = s.activations;
  return p;
}

bool may_be_pinned(const PinnedAxes& p, const Mesh& m, int64_t micro_batch) {
  return is(p.tensor, m.tensor) && is(p.context, m.context) && (m.context == 1 || is(p.ulysses, m.ulysses)) &&
         is(p.data, m.data) && is(p.expert, m.expert) && is(p.expert_tensor, m.expert_tensor) &&
         is(p.micro_batch, micro_batch);
}

std::string why_not_pinned(const PinnedAxes& p, const TrainJob& job, const OuterChoice& c,
                           const std::vector<Layer>& layers, const ModelSpec& spec, int64_t devices_of_node) {
  const Mesh& m = c.mesh;
  const auto other = [](std::string_view name, const auto& pin, int64_t value) {
    return is(pin, value) ? std::string() : fmt::format("{} {}: {} is asked", name, value, *pin);
  };
  for (std::string why :
       {other("tensor", p.tensor, m.tensor), other("context", p.context, m.context), other("data", p.data, m.data),
        other("expert", p.expert, m.expert), other("expert tensor", p.expert_tensor, m.expert_tensor),
        other("stages", p.stages, c.num_stages), other("chunks", p.chunks, c.chunks_per_stage),
        other("micro-batch", p.micro_batch, c.micro_batch), other("micro-batches", p.micro_batches, c.num_micro)})
    if (!why.empty()) return why;
  if (m.context > 1 && !is(p.ulysses, m.ulysses))
    return fmt::format("context by {}: {} is asked", ring_or_ulysses(m.ulysses), ring_or_ulysses(*p.ulysses));
  if (c.num_stages > 1 && !is(p.schedule, c.schedule))
    return fmt::format("schedule {}: {} is asked", name_of(c.schedule), name_of(*p.schedule));
  if (p.framework)
    if (std::string why = why_not_run(*p.framework, job, c, devices_of_node); !why.empty()) return why;
  if (!p.even) return "";
  const auto blocks = blocks_of(spec, layers);
  if (!blocks) return "layers=even: the model has more than one row of blocks";
  const int64_t n = static_cast<int64_t>(blocks->second - blocks->first), V = c.num_stages * c.chunks_per_stage;
  if (n % V)
    return fmt::format("layers=even: {} stages × {} chunks do not divide {} blocks", c.num_stages, c.chunks_per_stage,
                       n);
  return "";
}

std::vector<int> even_stages(const ModelSpec& spec, const std::vector<Layer>& layers, int virtual_stages) {
  const auto blocks = blocks_of(spec, layers);
  if (!blocks) return {};
  const auto [begin, end] = *blocks;
  const size_t n = end - begin, V = static_cast<size_t>(virtual_stages);
  if (V == 0 || n % V) return {};
  std::vector<int> stages;
  for (size_t u = 0; u < layers.size(); ++u)
    stages.push_back(u < begin || n == 0 ? 0 : u >= end ? virtual_stages - 1 : static_cast<int>((u - begin) / (n / V)));
  return stages;
}

}  // namespace tern
