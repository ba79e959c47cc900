#include "update/rule.h"

#include <algorithm>

#include "kernels/cpu/newton_schulz.h"

namespace tern {
namespace {

// Elements of a tensor of any shape, as one row of numbers.
Tensor flat_part(const Tensor& t, int64_t begin, int64_t end) {
  return t.empty() ? Tensor() : t.reshaped({t.count()}).rows_view(begin, end);
}

}  // namespace

const UpdateFunctions& functions_of(UpdateRule rule) {
  static constexpr const UpdateFunctions* functions[] = {
#define TERN_UPDATE_RULE(name, ...) &name##_rule,
#include "spec/update_rules.def"
#undef TERN_UPDATE_RULE
  };
  return *functions[static_cast<size_t>(rule)];
}

ThreadBytes orthogonal_thread_bytes(const UpdateConfig&, const ParameterForm& p) {
  return p.kind == ParameterKind::matrix ? newton_schulz_thread_bytes(p.rows, p.columns) : ThreadBytes{};
}

UpdateShard interval_of(const UpdateShard& whole, int64_t begin, int64_t end) {
  UpdateShard part = whole;
  for (Tensor* t : {&part.gradient, &part.master, &part.compute}) *t = flat_part(*t, begin, end);
  const std::vector<StateSlot>& slots = row_of(whole.config.rule).slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto [first, last] = slot_interval(whole.config, slots[i], whole.form, begin, end);
    part.slots[i] = flat_part(part.slots[i], first, last);
  }
  return part;
}

}  // namespace tern
