#include "spec/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tern {

Interval part_of(int64_t length, int64_t part, int64_t parts) {
  const auto cut = [&](int64_t i) { return static_cast<int64_t>(static_cast<__int128>(length) * i / parts); };
  return {cut(part), cut(part + 1)};
}

AxisLayout whole() { return {}; }
AxisLayout split(int dim, std::vector<int64_t> sections) { return {AxisSpread::split, dim, std::move(sections), {}}; }
AxisLayout split_at(int dim, std::vector<int64_t> bounds) { return {AxisSpread::split, dim, {}, std::move(bounds)}; }
AxisLayout partial() { return {AxisSpread::partial}; }

int Layout::num_ranks() const {
  int64_t ranks = 1;
  for (const int64_t size : mesh) ranks *= size;
  return static_cast<int>(ranks);
}

std::string to_string(const Layout& layout) {
  std::string text, mesh;
  for (size_t a = 0; a < layout.axes.size(); ++a) {
    const AxisLayout& axis = layout.axes[a];
    if (a > 0) text += " × ", mesh += " × ";
    text += axis.spread == AxisSpread::whole     ? "B"
            : axis.spread == AxisSpread::partial ? "P"
                                                 : fmt::format("S({})", axis.dim);
    if (!axis.sections.empty()) text += fmt::format(" of {} sections", axis.sections.size());
    if (!axis.bounds.empty()) text += " at bounds";
    mesh += fmt::format("{}", layout.mesh[a]);
  }
  return text + " on " + mesh;
}

void check_layout(const Layout& l) {
  TERN_CHECK(l.axes.size() == l.mesh.size() && !l.axes.empty(), "layout: {} axes, a mesh of {}", l.axes.size(),
             l.mesh.size());
  for (size_t a = 0; a < l.axes.size(); ++a) {
    const AxisLayout& axis = l.axes[a];
    TERN_CHECK(l.mesh[a] >= 1, "layout: {} ranks along axis {}", l.mesh[a], a);
    if (axis.spread != AxisSpread::split) continue;
    TERN_CHECK(axis.dim >= 0 && axis.dim < static_cast<int>(l.shape.size()), "layout {}: dim {} of {}", to_string(l),
               axis.dim, l.shape.size());
    const int64_t length = l.shape[static_cast<size_t>(axis.dim)];
    int64_t sum = 0;
    for (const int64_t section : axis.sections) sum += section;
    TERN_CHECK(axis.sections.empty() || sum == length, "layout {}: sections of {} in a dim of {}", to_string(l), sum,
               length);
    if (!axis.bounds.empty())
      TERN_CHECK(axis.sections.empty() && static_cast<int64_t>(axis.bounds.size()) == l.mesh[a] + 1 &&
                     axis.bounds.front() == 0 && axis.bounds.back() == length && std::ranges::is_sorted(axis.bounds),
                 "layout {}: its bounds do not cut a dim of {} in {}", to_string(l), length, l.mesh[a]);
    for (size_t b = 0; b < a; ++b) {
      const AxisLayout& other = l.axes[b];
      TERN_CHECK(other.spread != AxisSpread::split || other.dim != axis.dim ||
                     (other.sections == axis.sections && other.bounds.empty() && axis.bounds.empty()),
                 "layout {}: axes {} and {} split dim {} in unlike ways", to_string(l), b, a, axis.dim);
    }
  }
}

std::vector<int64_t> coordinates(const Layout& l, int rank) {
  std::vector<int64_t> at(l.mesh.size());
  int64_t left = rank;
  for (size_t a = l.mesh.size(); a-- > 0; left /= l.mesh[a]) at[a] = left % l.mesh[a];
  return at;
}

Holding holding(const Layout& l, int rank) {
  const std::vector<int64_t> at = coordinates(l, rank);
  Holding held;
  for (size_t dim = 0; dim < l.shape.size(); ++dim) {
    std::vector<Interval> intervals{{0, l.shape[dim]}};
    bool cut = false;
    for (size_t a = 0; a < l.axes.size(); ++a) {
      const AxisLayout& axis = l.axes[a];
      if (axis.spread != AxisSpread::split || axis.dim != static_cast<int>(dim)) continue;
      if (!axis.bounds.empty()) {
        intervals = {{axis.bounds[static_cast<size_t>(at[a])], axis.bounds[static_cast<size_t>(at[a]) + 1]}};
        continue;
      }
      if (!cut && !axis.sections.empty()) {
        intervals.clear();
        for (int64_t begin = 0; const int64_t section : axis.sections)
          intervals.push_back({begin, begin + section}), begin += section;
      }
      cut = true;
      for (Interval& i : intervals) {
        const Interval part = part_of(i.size(), at[a], l.mesh[a]);
        i = {i.begin + part.begin, i.begin + part.end};
      }
    }
    std::vector<Interval> joined;
    for (const Interval& i : intervals) {
      if (i.size() == 0) continue;
      if (!joined.empty() && joined.back().end == i.begin)
        joined.back().end = i.end;
      else
        joined.push_back(i);
    }
    held.push_back(std::move(joined));
  }
  return held;
}

std::vector<int64_t> local_shape(const Holding& held) {
  std::vector<int64_t> shape;
  for (const std::vector<Interval>& intervals : held) {
    int64_t length = 0;
    for (const Interval& i : intervals) length += i.size();
    shape.push_back(length);
  }
  return shape;
}

int64_t local_count(const Holding& held) {
  int64_t count = 1;
  for (const int64_t length : local_shape(held)) count *= length;
  return count;
}

}  // namespace tern
