#include "update/perturbed_weights.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/rounding.h"
#include "base/wide_type.h"
#include "model/allocate_weights.h"
#include "model/visit_weights.h"
#include "update/update_unit.h"

namespace tern {
namespace {

constexpr int64_t kLentAlignment = 64;

struct LentBytes {
  int64_t moved = 0, wide = 0;
  void add(int64_t elements, DType type, bool own) {
    moved += round_up(elements * size_of(type), kLentAlignment);
    if (own) wide += round_up(elements * size_of(wide_type(type)), kLentAlignment);
  }
};

// The tied head's table is lent with the head, but belongs to the embedding: its place in trained_parameters, which it shares.
bool lends_table(const ModelSpec& spec) { return spec.head().tied && !spec.units.front().frozen; }

}  // namespace

int64_t perturbed_bytes(const ModelSpec& spec, DType type, const std::vector<bool>& in_file) {
  std::vector<LentBytes> units(spec.units.size());
  int64_t most = 0, whole = 0;
  for (const ParameterInfo& info : trained_parameters(spec))
    units[static_cast<size_t>(info.unit)].add(info.shape.count(), type, true);
  if (lends_table(spec)) units.back().add(spec.head().vocab * spec.head().width, type, false);
  for (size_t u = 0; u < units.size(); ++u) {
    most = std::max({most, units[u].moved, units[u].wide});
    if (!in_file.empty() && in_file[u]) whole = std::max(whole, units[u].wide);
  }
  return most + whole;
}

PerturbedWeights::PerturbedWeights(const ModelSpec& spec, const ModelWeights& weights, UpdatePass& pass,
                                   const ZerothOrder& config, StoredStates* stored, Arena& arena)
    : spec_(spec), pass_(pass), config_(config), stored_(stored), lent_(weights), units_(spec.units.size()) {
  type_ = weight_type(pass);
  wide_ = wide_type(type_);
  TERN_CHECK(!row_of(pass.config.rule).computes_elsewhere && !pass.state.shares.any(),
             "perturbed weights: a rule that computes elsewhere, or a state that ranks share out");
  std::vector<LentBytes> bytes(units_.size());
  std::vector<bool> files(units_.size());
  const auto add = [&](int unit, size_t parameter, Tensor& t, bool own) {
    LentBytes& so_far = bytes[static_cast<size_t>(unit)];
    units_[static_cast<size_t>(unit)].push_back({parameter, &t, so_far.moved, so_far.wide, own});
    so_far.add(pass.state.infos[parameter].shape.count(), type_, own);
  };
  size_t next = 0, table = 0;
  for_each_trained(spec, lent_, [&](const ParameterInfo& info, Tensor& t) {
    if (&t == &embed_of(lent_).tokens) table = next;
    if (in_file(next)) files[static_cast<size_t>(info.unit)] = true;
    add(info.unit, next++, t, true);
  });
  TERN_CHECK(next == pass.state.infos.size(), "perturbed weights: {} tensors of {} parameters", next,
             pass.state.infos.size());
  if (lends_table(spec)) {
    TERN_CHECK(!in_file(table), "perturbed weights: a tied table in a file");
    add(static_cast<int>(units_.size()) - 1, table, dense_rows(head_of(lent_).projection), false);
  }
  int64_t moved = 0, whole = 0;
  for (size_t u = 0; u < units_.size(); ++u) {
    moved = std::max({moved, bytes[u].moved, bytes[u].wide});
    if (files[u]) whole = std::max(whole, bytes[u].wide);
  }
  TERN_CHECK(whole == 0 || type_ == wide_, "perturbed weights: {} in a file", name_of(type_));
  moved_ = arena.bytes(moved, MemoryClass::gradients);
  if (whole > 0) whole_ = arena.bytes(whole, MemoryClass::gradients);
}

bool PerturbedWeights::in_file(size_t parameter) const { return stored_ && stored_->field(parameter, kMasterField); }

Tensor PerturbedWeights::wide_view(const Tensor& memory, const Lent& l) const {
  return Tensor::borrow(wide_, pass_.state.infos[l.parameter].shape,
                        static_cast<std::byte*>(memory.data()) + l.wide_at);
}

Tensor PerturbedWeights::master_of(const Lent& l) const {
  return in_file(l.parameter) ? wide_view(whole_, l) : pass_.state.master[l.parameter];
}

void PerturbedWeights::begin_pass(int64_t step, int64_t micros) {
  TERN_CHECK(held_ == 0 && micros > 0, "perturbed weights: {} micro-batches, {} leases", micros, held_);
  direction_ = {config_.seed, step};
  micros_ = micros, unit_ = -1, reads_ = false;
}

void PerturbedWeights::end_pass(std::optional<double> slope) {
  TERN_CHECK(held_ == 0 && unit_ == static_cast<int>(units_.size()) - 1 && taken_ == 2 * micros_,
             "perturbed weights: the pass ended at unit {} after {} leases", unit_, taken_);
  unit_ = -1;
  move_.reset();
  if (slope) move_ = Move{direction_, *slope};
}

void PerturbedWeights::settle(Arena& arena) {
  if (!move_) return;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) bring(u, arena);
  move_.reset();
}

void PerturbedWeights::begin_reading() {
  TERN_CHECK(held_ == 0 && !move_, "perturbed weights: read before they are moved");
  unit_ = -1, reads_ = true;
}

Tensor PerturbedWeights::read(size_t parameter) {
  TERN_CHECK(held_ == 0 && !move_ && in_file(parameter), "perturbed weights: parameter {} read before it is moved",
             parameter);
  const Tensor whole = Tensor::borrow(wide_, pass_.state.infos[parameter].shape, whole_.data());
  auto* to = static_cast<std::byte*>(whole.data());
  stored_->read(parameter, kMasterField, [&to](std::span<const std::byte> piece) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  });
  return whole;
}

// Passes a parameter's parts through memory: each is moved if it is to be, and its weights are copied.
void PerturbedWeights::bring_stored(const Lent& l, Arena& arena) {
  const Tensor whole = in_file(l.parameter) ? wide_view(whole_, l) : Tensor();
  const auto copy = [&](const StoredStates::Part& part) {
    if (whole.empty()) return;
    std::memcpy(static_cast<std::byte*>(whole.data()) + part.elements.begin * size_of(wide_), part.master.data(),
                static_cast<size_t>(part.master.bytes()));
  };
  if (move_) {
    pass_.stored = stored_;
    update_stored(pass_, {}, l.parameter, arena, copy);
    pass_.stored = nullptr;
    return;
  }
  const size_t parts = stored_->layout().parameters[l.parameter].parts.size();
  for (size_t k = 0; k < parts; ++k) {
    copy(stored_->acquire(l.parameter, k));
    stored_->release();
  }
}

// The unit's weights as this step's pass finds them: moved by the step before, where it is to be.
void PerturbedWeights::bring(int unit, Arena& arena) {
  for (const Lent& l : units_[static_cast<size_t>(unit)]) {
    if (!l.own) continue;
    const size_t p = l.parameter;
    if (move_) {
      pass_.gradients[p] = wide_view(moved_, l);
      put_direction(move_->direction, pass_.state.infos[p].name, move_->slope, pass_.gradients[p]);
    }
    if (stored_ && !stored_->layout().parameters[p].fields.empty())
      bring_stored(l, arena);
    else if (move_)
      update_parameters(pass_, {}, {&p, 1}, arena);
    pass_.gradients[p] = {};
  }
}

void PerturbedWeights::lend_moved(int unit, double scale) {
  for (const Lent& l : units_[static_cast<size_t>(unit)]) {
    const ParameterInfo& info = pass_.state.infos[l.parameter];
    *l.place = Tensor::borrow(type_, info.shape, static_cast<std::byte*>(moved_.data()) + l.moved_at);
    move_along(direction_, info.name, scale, master_of(l), *l.place);
  }
  share_norms(spec_, lent_);
}

const UnitWeights& PerturbedWeights::acquire(int unit) {
  if (unit != unit_) {
    TERN_CHECK(held_ == 0 && unit == (unit_ + 1) % static_cast<int>(units_.size()),
               "perturbed weights: unit {} after unit {}", unit, unit_);
    TERN_CHECK(reads_ || unit == 0 || taken_ == 2 * micros_, "perturbed weights: unit {} was lent {} times", unit_,
               taken_);
    bring(unit, rule_memory_);
    unit_ = unit, taken_ = 0;
    if (reads_) {
      for (const Lent& l : units_[static_cast<size_t>(unit)]) *l.place = master_of(l);
      share_norms(spec_, lent_);
    }
  }
  if (!reads_) {
    TERN_CHECK(taken_ < 2 * micros_, "perturbed weights: unit {} is lent too often", unit);
    if (taken_ % micros_ == 0) lend_moved(unit, taken_ < micros_ ? config_.perturbation : -config_.perturbation);
  }
  ++taken_, ++held_;
  return lent_.units[static_cast<size_t>(unit)];
}

}  // namespace tern
