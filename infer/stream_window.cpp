#include "infer/stream_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "model/file_bands.h"

namespace tern {

std::string_view name_of(WindowOf of) { return of == WindowOf::block ? "blocks" : "layers"; }

std::string describe(const StreamWindow& w) {
  return fmt::format("{} {}{}", w.resident, name_of(w.of), w.step > 1 ? fmt::format(", {} at a time", w.step) : "");
}

std::vector<int> units_of_matrices(const ModelSpec& spec, const FileBands& bands) {
  std::map<std::string, int> unit_of;
  for (const ParameterInfo& info : parameters(spec)) unit_of.emplace(info.name, info.unit);
  std::vector<int> units;
  for (const FileMatrix& m : bands.matrices)
    units.push_back(m.head ? static_cast<int>(spec.units.size()) - 1 : unit_of.at(m.name));
  return units;
}

RingWindow ring_window(const ModelSpec& spec, const FileBands& bands, const StreamWindow& asked) {
  if (std::ranges::any_of(spec.units, [](const Unit& u) { return moe_of(u) != nullptr; }))
    throw Error(ErrorKind::usage,
                "a window of {}: this is a mixture of experts, of which a token reads those that it chooses; leave "
                "--stream-window out",
                describe(asked));
  RingWindow window{.blocks = {}, .resident = asked.resident, .step = asked.step};
  const std::vector<int> units = units_of_matrices(spec, bands);
  // Layers have their numbers; what is in none is a block of its own.
  const auto block_of = [&](int unit) {
    const int layer = spec.units[static_cast<size_t>(unit)].layer;
    return asked.of == WindowOf::layer && layer >= 0 ? -1 - layer : unit;
  };
  for (size_t i = 0; i < units.size(); ++i) {
    if (i == 0 || block_of(units[i]) != block_of(units[i - 1])) window.blocks.push_back(0);
    window.blocks.back() += static_cast<int>(bands.matrices[i].bands.size());
  }
  const auto count = static_cast<int>(window.blocks.size());
  if (count == 0)
    throw Error(ErrorKind::usage,
                "a window of {}: no matrix of this model can be read where it lies in its file (docs/streaming.md); "
                "leave --stream-window out",
                describe(asked));
  if (asked.resident > count)
    throw Error(ErrorKind::usage, "a window of {}: this model has {}; name at most so many", describe(asked), count);
  return window;
}

int64_t window_bytes(const FileBands& bands, const RingWindow& window) {
  std::vector<int64_t> blocks;  // bytes of each
  int left = 0;                 // bands of the last of them that are still to come
  for (const FileMatrix& m : bands.matrices)
    for (const FileBand& band : m.bands) {
      if (left == 0) left = window.blocks[blocks.size()], blocks.push_back(0);
      blocks.back() += band.extent.bytes;
      --left;
    }
  return most_at_a_time(window, blocks);
}

}  // namespace tern
