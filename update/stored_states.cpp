#include "update/stored_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/rounding.h"
#include "base/wide_type.h"
#include "model/visit_weights.h"
#include "store/read_extent.h"
#include "update/rule.h"

namespace tern {
namespace {

constexpr int64_t kBounceBytes = int64_t{1} << 20, kProbedBytes = int64_t{128} << 20;
constexpr int64_t kSmallestSubgroup = 4 * kUpdateBlock, kLargestSubgroup = 64 * kUpdateBlock;

std::vector<Interval> parts_of_form(const UpdateConfig& config, const ParameterForm& form, int64_t subgroup) {
  if (row_of(config.rule).grain(form) == UpdateGrain::parameter) return {{0, form.elements()}};
  std::vector<Interval> parts;
  for (int64_t begin = 0; begin < form.elements(); begin += subgroup)
    parts.push_back({begin, std::min(form.elements(), begin + subgroup)});
  return parts;
}

// Of the field, the elements that belong to a part of the parameter.
Interval part_of_field(const UpdateConfig& config, const StoredField& f, const ParameterForm& form,
                       const Interval& part) {
  return f.slot == kMasterField ? part
                                : slot_part(config, row_of(config.rule).slots[static_cast<size_t>(f.slot)], form, part);
}

// The elements of an interval as one row of numbers; the whole keeps its shape.
Tensor interval_view(const Tensor& t, const Interval& i) {
  if (t.empty() || t.count() == i.size()) return t;
  return t.reshaped({t.count()}).rows_view(i.begin, i.end);
}
// A whole parameter's state has the shapes that it has in memory (update/state.h).
Tensor shaped(const Tensor& t, const Interval& part, const Shape& parameter) {
  return !t.empty() && part.size() == parameter.count() && t.count() == parameter.count() ? t.reshaped(parameter) : t;
}

}  // namespace

std::string why_not_stored(const UpdateConfig& config) {
  if (num_sums(config) > 0) return "takes sums over states before it changes them";
  if (row_of(config.rule).computes_elsewhere) return "computes at another point than the weights that it keeps";
  if (row_of(config.rule).slots.empty()) return "keeps nothing";
  return "";
}

StoredLayout stored_layout(const std::vector<ParameterForm>& forms, const UpdateConfig& config, DType weights,
                           int64_t subgroup, const std::vector<bool>& weights_too) {
  TERN_CHECK(subgroup > 0 && subgroup % kUpdateBlock == 0, "stored_layout: subgroups of {} elements", subgroup);
  TERN_CHECK(why_not_stored(config).empty(), "stored_layout: {}", why_not_stored(config));
  const std::vector<StateSlot>& slots = row_of(config.rule).slots;
  const DType wide = wide_type(weights);
  StoredLayout layout;
  for (const ParameterForm& form : forms) {
    StoredParameter p{
        .fields = {}, .parts = parts_of_form(config, form, subgroup), .first_record = layout.records.size()};
    const auto add = [&](int slot, DType type, int64_t elements) {
      if (elements == 0) return;
      p.fields.push_back({slot, type, elements});
      layout.state_bytes += p.fields.back().bytes();
    };
    const bool too = !weights_too.empty() && weights_too[layout.parameters.size()];
    if (too || has_own_masters(config, weights)) add(kMasterField, wide, form.elements());
    for (size_t s = 0; s < slots.size(); ++s)
      add(static_cast<int>(s), slots[s].type.value_or(wide), slot_elements(config, slots[s], form));
    for (const Interval& part : p.parts) {
      ExchangedRecord record;
      for (const StoredField& f : p.fields) {
        const int64_t bytes = part_of_field(config, f, form, part).size() * size_of(f.type);
        record.extents.push_back({0, layout.file_bytes, bytes});
        layout.file_bytes += round_up(bytes, kStoredAlignment);
      }
      layout.records.push_back(std::move(record));
    }
    layout.parameters.push_back(std::move(p));
  }
  return layout;
}

StoredPassage stored_passage(const std::vector<ParameterForm>& forms, const UpdateConfig& config, DType weights,
                             const std::vector<bool>& weights_too) {
  StoredPassage passage;
  for (int64_t subgroup = kLargestSubgroup; subgroup > kSmallestSubgroup; subgroup /= 2) {
    const StoredLayout layout = stored_layout(forms, config, weights, subgroup, weights_too);
    passage.subgroup = subgroup;
    if (passage_bytes(layout, passage) <= layout.state_bytes / 16) return passage;
  }
  passage.subgroup = kSmallestSubgroup;
  return passage;
}

int64_t passage_bytes(const StoredLayout& layout, const StoredPassage& passage) {
  return ExchangeRing::bytes_for(layout.records, passage.ring.slots, kStoredAlignment) + kBounceBytes +
         kStoredAlignment;
}

OptimizerState stored_optimizer_state(const ModelSpec& spec, ModelWeights& weights, const UpdateConfig& config) {
  OptimizerState state;
  state.infos = trained_parameters(spec);
  const std::vector<Tensor*> all = trained_tensors(spec, weights);
  TERN_CHECK(all.size() == state.infos.size(), "stored states: {} tensors of {} parameters", all.size(),
             state.infos.size());
  for (size_t i = 0; i < all.size(); ++i) {
    state.forms.push_back(form_of(spec, state.infos[i]));
    state.master.push_back(has_own_masters(config, all[i]->dtype()) ? Tensor() : *all[i]);
  }
  state.slots.assign(row_of(config.rule).slots.size(), std::vector<Tensor>(all.size()));
  for_each_fixed(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    state.fixed_names.push_back(info.name);
    state.fixed.push_back(t);
  });
  return state;
}

StoredStates::StoredStates(OpenedScratch opened, StoredLayout layout, const StoredPassage& passage, Arena& arena,
                           Clock& clock)
    : opened_(std::move(opened)), layout_(std::move(layout)), passage_(passage), clock_(clock) {
  TERN_CHECK(kStoredAlignment % opened_.file->alignment() == 0, "stored states: blocks of {}",
             opened_.file->alignment());
  for (const StoredParameter& p : layout_.parameters)
    for (const StoredField& f : p.fields) num_slots_ = std::max(num_slots_, static_cast<size_t>(f.slot + 1));
  memory_ = arena.bytes(passage_bytes(layout_, passage_), MemoryClass::optimizer);
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  auto* const begin = static_cast<std::byte*>(memory_.data()) +
                      (round_up(static_cast<int64_t>(address), kStoredAlignment) - static_cast<int64_t>(address));
  bounce_ = {begin, static_cast<size_t>(kBounceBytes)};
  slots_memory_ = {begin + kBounceBytes, static_cast<size_t>(memory_.bytes() - kBounceBytes - kStoredAlignment)};
}

size_t StoredStates::place_of(size_t parameter, int slot) const {
  const std::vector<StoredField>& fields = layout_.parameters.at(parameter).fields;
  return static_cast<size_t>(std::ranges::find(fields, slot, &StoredField::slot) - fields.begin());
}

const StoredField* StoredStates::field(size_t parameter, int slot) const {
  const std::vector<StoredField>& fields = layout_.parameters.at(parameter).fields;
  const size_t place = place_of(parameter, slot);
  return place < fields.size() ? &fields[place] : nullptr;
}

void StoredStates::write(size_t parameter, int slot, std::span<const std::byte> bytes) {
  const StoredParameter& p = layout_.parameters.at(parameter);
  const size_t place = place_of(parameter, slot);
  TERN_CHECK(!ring_ && place < p.fields.size() && std::ssize(bytes) == p.fields[place].bytes(),
             "stored states: {} bytes for slot {} of parameter {}", bytes.size(), slot, parameter);
  for (size_t k = 0; k < p.parts.size(); ++k) {
    const Extent& e = layout_.records[p.first_record + k].extents[place];
    for (int64_t at = 0; at < e.bytes; at += kBounceBytes) {
      const int64_t count = std::min(kBounceBytes, e.bytes - at);
      const auto blocks = bounce_.first(static_cast<size_t>(round_up(count, kStoredAlignment)));
      std::memcpy(blocks.data(), bytes.data() + at, static_cast<size_t>(count));
      std::fill(blocks.begin() + count, blocks.end(), std::byte{0});
      write_blocks(*opened_.file, e.offset + at, blocks);
    }
    bytes = bytes.subspan(static_cast<size_t>(e.bytes));
  }
}

void StoredStates::read(size_t parameter, int slot, const std::function<void(std::span<const std::byte>)>& sink) {
  const StoredParameter& p = layout_.parameters.at(parameter);
  const size_t place = place_of(parameter, slot);
  TERN_CHECK(place < p.fields.size(), "stored states: no slot {} of parameter {}", slot, parameter);
  settle();
  for (size_t k = 0; k < p.parts.size(); ++k) {
    const Extent& e = layout_.records[p.first_record + k].extents[place];
    for (int64_t at = 0; at < e.bytes; at += kBounceBytes)
      sink(read_extent(*opened_.file, {0, e.offset + at, std::min(kBounceBytes, e.bytes - at)}, bounce_).bytes);
  }
}

ProbedRate StoredStates::probe(double seconds) {
  TERN_CHECK(!ring_, "stored states: probed while in use");
  ProbedRate rate;
  if (layout_.file_bytes == 0) return rate;
  // More parts than slots, or each would stay in its own.
  const int64_t part_bytes = ExchangeRing::slot_bytes_for(layout_.records, kStoredAlignment);
  const int64_t probed = std::clamp<int64_t>(kProbedBytes / part_bytes, passage_.ring.slots + 1, 16);
  const int64_t stride = std::max<int64_t>(1, std::ssize(layout_.records) / probed);
  std::vector<ExchangedRecord> some;
  for (int64_t r = 0; r < std::ssize(layout_.records); r += stride)
    some.push_back(layout_.records[static_cast<size_t>(r)]);
  ExchangeRing ring(*opened_.file, std::move(some), passage_.ring, slots_memory_, clock_);
  const auto pass = [&] {
    for (int r = 0; r < ring.num_records(); ++r) {
      ring.acquire(r);
      ring.release();
    }
    ring.settle();
  };
  pass();  // what was never written is not read from the disk
  const int64_t before = ring.counts().used_bytes, begin_ns = clock_.now_ns();
  do {
    pass();
    rate.seconds = seconds_between(begin_ns, clock_.now_ns());
  } while (rate.seconds > 0 && rate.seconds < seconds);
  rate.bytes = 2 * (ring.counts().used_bytes - before);
  return rate;
}

void StoredStates::begin(std::span<const size_t> parameters) {
  TERN_CHECK(!ring_, "stored states: begun twice");
  std::vector<ExchangedRecord> order;
  place_of_record_.assign(layout_.records.size(), -1);
  for (const size_t p : parameters)
    for (size_t k = 0; k < layout_.parameters.at(p).parts.size(); ++k) {
      const size_t record = layout_.parameters[p].first_record + k;
      TERN_CHECK(place_of_record_[record] < 0, "stored states: parameter {} comes twice", p);
      place_of_record_[record] = static_cast<int>(order.size());
      order.push_back(layout_.records[record]);
    }
  ring_ = std::make_unique<ExchangeRing>(*opened_.file, std::move(order), passage_.ring, slots_memory_, clock_);
}

StoredStates::Part StoredStates::acquire(size_t parameter, size_t k) {
  TERN_CHECK(ring_ != nullptr, "stored states: not begun");
  const StoredParameter& p = layout_.parameters[parameter];
  Part part{.elements = p.parts[k], .master = {}, .slots = std::vector<Tensor>(num_slots_)};
  const std::vector<std::span<std::byte>> bytes = ring_->acquire(place_of_record_[p.first_record + k]);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i].empty()) continue;
    const StoredField& f = p.fields[i];
    const Tensor t = Tensor::borrow(f.type, {std::ssize(bytes[i]) / size_of(f.type)}, bytes[i].data());
    (f.slot == kMasterField ? part.master : part.slots[static_cast<size_t>(f.slot)]) = t;
  }
  return part;
}

void StoredStates::release() { ring_->release(); }

void StoredStates::settle() {
  if (ring_) ring_->settle();
}

void update_stored(const UpdatePass& pass, const UpdateNorm& norm, size_t parameter, Arena& arena,
                   const std::function<void(const StoredStates::Part&)>& changed) {
  StoredStates& states = *pass.stored;
  const size_t parts = states.layout().parameters[parameter].parts.size();
  const UpdateShard whole = shard_of(pass, norm, parameter);
  const Shape& shape = pass.state.infos[parameter].shape;
  for (size_t k = 0; k < parts; ++k) {
    const StoredStates::Part part = states.acquire(parameter, k);
    UpdateShard shard = whole;
    shard.gradient = interval_view(whole.gradient, part.elements);
    shard.compute = interval_view(whole.compute, part.elements);
    shard.master = part.master.empty() ? interval_view(whole.master, part.elements) : part.master;
    shard.master = shaped(shard.master, part.elements, shape);
    for (size_t s = 0; s < shard.slots.size(); ++s)
      shard.slots[s] = s < part.slots.size() ? shaped(part.slots[s], part.elements, shape) : Tensor();
    if (const int64_t elements = temporary_elements(pass.config, shard.form); elements > 0)
      shard.temporary = arena.allocate(shard.master.dtype(), {elements}, MemoryClass::workspace);
    functions_of(pass.config.rule).step(shard);
    if (changed) changed(part);
    states.release();
  }
}

}  // namespace tern
