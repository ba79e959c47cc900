#pragma once
// Layout: how a tensor lies on the ranks of a mesh, as a value. `redistribution` (spec/redistribution.h) lists the messages that
// turn one layout into another; derive_layouts (spec/derived_layouts.h) counts their bytes.

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tern {

struct Interval {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Part `part` of a length that is cut into `parts` equal parts: it begins at ⌊length·part/parts⌋.
Interval part_of(int64_t length, int64_t part, int64_t parts);

enum class AxisSpread : uint8_t {
  whole,    // B: every rank along the axis holds the same
  split,    // S: each holds its part of a dim
  partial,  // P: each holds a summand; the tensor is their sum
};

/// How the tensor lies along one axis of the mesh.
struct AxisLayout {
  AxisSpread spread = AxisSpread::whole;
  int dim = 0;  // of a split
  /// Of a split: the dim consists of sections of these lengths, and each rank has its part of every section, one after
  /// the other (qkv stacks q, k and v). Empty: one section.
  std::vector<int64_t> sections{};
  /// Of a split into unlike parts: rank i along the axis has [bounds[i], bounds[i+1]), which may be empty. Empty vector: equal parts.
  std::vector<int64_t> bounds{};
  friend bool operator==(const AxisLayout&, const AxisLayout&) = default;
};
AxisLayout whole();
AxisLayout split(int dim, std::vector<int64_t> sections = {});
AxisLayout split_at(int dim, std::vector<int64_t> bounds);
AxisLayout partial();

/// Where several axes split the same dim, each splits what the previous axis left; all of them must have equal sections
/// and no bounds.
struct Layout {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;    // of the whole tensor
  std::vector<int64_t> mesh;     // ranks along each axis; the last axis is innermost
  std::vector<AxisLayout> axes;  // one for each axis of `mesh`
  int num_ranks() const;
  friend bool operator==(const Layout&, const Layout&) = default;
};
/// "S(0) × P on 2 × 4".
std::string to_string(const Layout&);

/// Errors: TERN_CHECK, naming the layout: it breaks a rule stated above; bounds do not ascend from 0 to the dim's
/// length; sections do not add up to that length.
void check_layout(const Layout&);

/// The rank's index along each axis.
std::vector<int64_t> coordinates(const Layout&, int rank);

/// What a rank holds of each dim: ascending, non-empty intervals that do not touch. The rank's tensor is the Cartesian
/// product of the dims' intervals, row-major; within a dim, the intervals are laid end to end.
using Holding = std::vector<std::vector<Interval>>;
Holding holding(const Layout&, int rank);
/// The shape of the rank's tensor.
std::vector<int64_t> local_shape(const Holding&);
int64_t local_count(const Holding&);

}  // namespace tern
