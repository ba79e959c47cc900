#include "plan/pinned.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace tern {
namespace {

constexpr int64_t kMostPinned = int64_t{1} << 24;
constexpr std::string_view kEven = "layers";  // the pin that is no axis: layers=even

[[noreturn]] void refuse(std::string_view name, std::string_view value, const std::string& expected) {
  throw Error(ErrorKind::usage, "--fix: {}={}: expected {}", name, make_printable(value), expected);
}

int64_t value_of(const PlanAxis& axis, std::string_view text) {
  if (!axis.values.empty()) {
    const auto at = std::find(axis.values.begin(), axis.values.end(), text);
    if (at == axis.values.end())
      refuse(axis.name, text,
             "one of " + join({axis.values.begin(), axis.values.end()}, ", ") + did_you_mean(text, axis.values));
    return at - axis.values.begin();
  }
  int64_t n = 0;
  const int64_t most = std::min(axis.most, kMostPinned);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < axis.least || n > most)
    refuse(axis.name, text, fmt::format("a whole number from {} to {}", axis.least, most));
  return n;
}

std::string pinned_text(const PlanAxis& axis, const PinnedAxes& p) {
  const auto value = axis.pin(p);
  return value ? axis.text(*value) : "";
}

// nullptr: kEven.
const PlanAxis* axis_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const PlanAxis& a : plan_axes()) {
    if (a.name == name) return &a;
    names.push_back(a.name);
  }
  if (name == kEven) return nullptr;
  names.push_back(kEven);
  throw Error(ErrorKind::usage, "--fix: '{}' is no axis; there are {}{}", make_printable(name),
              join({names.begin(), names.end()}, ", "), did_you_mean(name, names));
}

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

PinnedAxes parse_pinned(std::string_view text) {
  PinnedAxes p;
  std::vector<std::string_view> seen;
  for (const std::string_view entry : split(text, ',')) {
    const std::string_view pin = trim(entry);
    const size_t at = pin.find('=');
    if (at == std::string_view::npos)
      throw Error(ErrorKind::usage, "--fix: '{}': expected AXIS=VALUE, such as tp=8,pp=4", make_printable(pin));
    const std::string_view name = trim(pin.substr(0, at)), value = trim(pin.substr(at + 1));
    const PlanAxis* axis = axis_named(name);
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      throw Error(ErrorKind::usage, "--fix: {} is given twice", name);
    seen.push_back(name);
    if (!axis && value != "even") refuse(kEven, value, "even");
    if (axis)
      axis->set_pin(p, value_of(*axis, value));
    else
      p.even = true;
  }
  return p;
}

std::string to_string(const PinnedAxes& p) {
  std::vector<std::string> words;
  for (const std::string& axis : axes_given(p)) words.push_back(fmt::format("{}={}", axis, axis_value(p, axis)));
  return join(words, ",");
}

std::vector<std::string> axes_given(const PinnedAxes& p) {
  std::vector<std::string> names;
  for (const PlanAxis& a : plan_axes())
    if (a.pin(p)) names.emplace_back(a.name);
  if (p.even) names.emplace_back(kEven);
  return names;
}

std::string axis_value(const PinnedAxes& p, std::string_view name) {
  const PlanAxis* axis = axis_named(name);
  return axis ? pinned_text(*axis, p) : p.even ? "even" : "";
}

PinnedAxes without_axis(const PinnedAxes& p, std::string_view axis) { return with_axis(p, {}, axis); }

PinnedAxes with_axis(const PinnedAxes& p, const PinnedAxes& from, std::string_view name) {
  PinnedAxes out = p;
  if (const PlanAxis* axis = axis_named(name))
    axis->set_pin(out, axis->pin(from));
  else
    out.even = from.even;
  return out;
}

PinnedAxes axes_of(const OuterChoice& c, const std::vector<PlannedLayers>& layers) {
  PinnedAxes p;
  for (const PlanAxis& a : plan_axes()) {
    const bool of_layer = a.part == PlanAxis::Part::layer;
    if (!a.counts(c) || (of_layer && layers.empty())) continue;
    const int64_t value = a.get({c, of_layer ? layers.front().strategy : LayerStrategy{}});
    if (of_layer && std::any_of(layers.begin(), layers.end(), [&](const PlannedLayers& l) {
          return a.get({c, l.strategy}) != value;
        }))
      continue;
    a.set_pin(p, value);
  }
  return p;
}

bool may_be_pinned(const PinnedAxes& p, const Mesh& m, int64_t micro_batch) {
  const PlanPoint point{.choice = {.mesh = m, .micro_batch = micro_batch}, .strategy = {}};
  for (const PlanAxis& a : plan_axes())
    if (a.part == PlanAxis::Part::mesh && a.counts(point.choice) && a.pin(p).value_or(a.get(point)) != a.get(point))
      return false;
  return true;
}

std::string why_not_pinned(const PinnedAxes& p, const TrainJob& job, const OuterChoice& c,
                           const std::vector<Layer>& layers, const ModelSpec& spec, int64_t devices_of_node) {
  const PlanPoint point{c, {}};
  for (const PlanAxis& a : plan_axes()) {
    if (a.part == PlanAxis::Part::layer || !a.counts(c)) continue;
    if (const auto asked = a.pin(p); asked && *asked != a.get(point))
      return fmt::format("{} {}: {} is asked", a.words, a.text(a.get(point)), a.text(*asked));
  }
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
