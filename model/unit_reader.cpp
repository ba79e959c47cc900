#include "model/unit_reader.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "model/allocate_weights.h"
#include "model/linear.h"
#include "model/visit_weights.h"

namespace tern {

UnitReader::UnitReader(const ModelSpec& spec, const std::string& model_dir, Arena& arena)
    : spec_(spec), reader_(spec, model_dir), arena_(arena) {}

const UnitWeights& UnitReader::acquire(int unit) {
  if (unit != unit_) {
    TERN_CHECK(held_ == 0, "UnitReader: unit {} while {} is held", unit, unit_);
    unit_ = -1;
    load(unit);
    unit_ = unit;
  }
  ++held_;
  return weights_.units[static_cast<size_t>(unit)];
}

void UnitReader::load(int unit) {
  weights_ = empty_weights(spec_);  // what was there goes first
  const auto read = [&](const ParameterInfo& info, Tensor& t) {
    if (info.unit == unit) t = reader_.read(info, DType::f32, arena_);
  };
  for_each_parameter(spec_, unit, weights_.units[static_cast<size_t>(unit)], read);
  for_each_fixed(spec_, weights_, read);
  share_norms(spec_, weights_);
  const bool is_head = unit + 1 == static_cast<int>(spec_.units.size());
  if (is_head && spec_.head().tied)
    dense_rows(head_of(weights_).projection) = reader_.read(parameters(spec_).front(), DType::f32, arena_);
}

int64_t UnitReader::peak_bytes(const ModelSpec& spec) {
  std::map<int, int64_t> units;
  int64_t widest = 0, most = 0;
  for (const ParameterInfo& info : parameters(spec)) {
    units[info.unit] += 4 * info.shape.count();
    widest = std::max(widest, 4 * info.shape.count());
  }
  for (const auto& [unit, bytes] : units) most = std::max(most, bytes);
  return most + widest;
}

}  // namespace tern
