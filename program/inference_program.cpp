#include "program/inference_program.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/wide_type.h"

namespace tern {
namespace {

// An extent and the part that uses it.
struct ExtentUse {
  int unit, micro, part;
  int64_t bytes;
  int64_t turn;     // counted over all steps, with extents of heads that do not run
  int behind = -1;  // the use behind which its LOAD may begin; −1: from the begin on
  int last = 0;     // the last use of its block, of which all LOADs end before the first
  int load = -1;    // the place of its LOAD
};

// The most bytes of workspace that a product with an (n, k) matrix takes; nullopt: no ProductWorkspace is of it.
std::optional<int64_t> workspace_of(std::span<const ProductWorkspace> products, int64_t n, int64_t k) {
  std::optional<int64_t> most;
  for (const ProductWorkspace& p : products)
    if (p.out == n && p.in == k) most = std::max(most.value_or(0), p.decoded_bytes);
  return most;
}

class InferenceLowerer {
 public:
  InferenceLowerer(const ModelSpec& spec, const InferenceInput& in) : spec_(spec), in_(in) {
    const size_t count = spec.units.size();
    TERN_CHECK(count >= 2, "lower_inference: {} units; a model has an embedding and a head", count);
    TERN_CHECK(in.units.empty() || in.units.size() == count, "lower_inference: weights of {} units, the model has {}",
               in.units.size(), count);
    program_.num_units = static_cast<int>(count);
    program_.num_micro = static_cast<int>(in.steps.size());
  }

  Program run() {
    keep_resident();
    list_extents();
    load_extents(-1);
    for (micro_ = 0; micro_ < program_.num_micro; ++micro_) step();
    return std::move(program_);
  }

 private:
  const InferenceStep& now() const { return in_.steps[static_cast<size_t>(micro_)]; }
  int head() const { return program_.num_units - 1; }
  const InferenceUnit& weights_of(int unit) const {
    static const InferenceUnit stays;
    return in_.units.empty() ? stays : in_.units[static_cast<size_t>(unit)];
  }
  int end_unit(const InferenceStep& s) const { return s.logit_rows > 0 ? head() + 1 : head(); }
  Buffer output(int unit) const { return {BufferKind::output, unit, micro_}; }
  Buffer keys(int unit) const { return {BufferKind::keys, unit, micro_}; }
  static Buffer expert(const ExpertMatrix& m) {
    return {.kind = BufferKind::expert, .unit = m.unit, .micro = 0, .part = m.number};
  }

  int emit(Instruction i) {
    program_.instructions.push_back(std::move(i));
    return static_cast<int>(program_.instructions.size()) - 1;
  }

  void keep_resident() {
    std::vector<BufferBytes> all;
    if (in_.weight_bytes > 0) all.push_back({{BufferKind::weights, 0, 0}, in_.weight_bytes});
    if (in_.page_bytes > 0) all.push_back({{BufferKind::pages, 0, 0}, in_.page_bytes});
    for (int slot = 0; slot < in_.extent_slots; ++slot)
      all.push_back({{BufferKind::extent_slot, slot, 0}, in_.extent_slot_bytes});
    for (int slot = 0; slot < in_.keys_slots; ++slot)
      all.push_back({{BufferKind::keys_slot, slot, 0}, in_.keys_slot_bytes});
    for (size_t slot = 0; slot < in_.expert_slot_bytes.size(); ++slot)
      all.push_back({{BufferKind::expert_slot, static_cast<int>(slot), 0}, in_.expert_slot_bytes[slot]});
    for (const ExpertMatrix& m : in_.experts_there) all.push_back({expert(m), 0});
    program_.resident.push_back(std::move(all));
  }

  void list_extents() {
    const RingWindow single{.blocks = {}, .resident = in_.extent_slots};
    int places = 0;  // extents of a pass with the head
    for (int u = 0; u <= head(); ++u) places += static_cast<int>(num_extents(u));
    for (int m = 0; m < program_.num_micro; ++m) {
      int64_t turn = int64_t{m} * places;
      for (int u = 0; u < end_unit(in_.steps[static_cast<size_t>(m)]); ++u) {
        const std::vector<int64_t>& parts = weights_of(u).parts;
        for (size_t p = 0; p < parts.size(); ++p)
          if (parts[p] > 0) extents_.push_back({u, m, static_cast<int>(p) + 1, parts[p], turn++});
      }
    }
    if (extents_.empty()) return;
    TERN_CHECK(in_.extent_slots > 0, "lower_inference: {} extents without slots", extents_.size());
    const RingTurns turns(in_.extent_window.blocks.empty() ? single : in_.extent_window, places);
    for (ExtentUse& e : extents_) {
      e.behind = uses_before(turns.freed_by(e.turn) + 1) - 1;
      e.last = uses_before(turns.lent_end(e.turn)) - 1;
    }
  }
  int64_t num_extents(int unit) const {
    return std::ranges::count_if(weights_of(unit).parts, [](int64_t bytes) { return bytes > 0; });
  }
  int uses_before(int64_t turn) const {
    return static_cast<int>(std::ranges::lower_bound(extents_, turn, {}, &ExtentUse::turn) - extents_.begin());
  }

  // Those that may begin behind this use; −1: at the begin.
  void load_extents(int use) {
    for (; next_load_ < extents_.size() && extents_[next_load_].behind <= use; ++next_load_) {
      ExtentUse& e = extents_[next_load_];
      Instruction i{.op = Opcode::load, .unit = e.unit, .micro = e.micro, .part = e.part, .resource = Resource::disk};
      i.allocates = {{Buffer{.kind = BufferKind::extent, .unit = e.unit, .micro = e.micro, .part = e.part}, 0}};
      i.message_bytes = e.bytes;
      if (use >= 0) i.waits = {step_end_.forward};
      e.load = emit(std::move(i));
    }
  }

  // Of the part that comes next to one.
  void use_extent(Instruction& i) {
    i.reads.push_back({.kind = BufferKind::extent, .unit = i.unit, .micro = micro_, .part = i.part});
    i.frees.push_back(i.reads.back());
    const auto use = static_cast<size_t>(next_use_of_extent_);
    const bool first_of_block = use == 0 || extents_[use - 1].last != extents_[use].last;
    if (const int last = extents_[use].last; first_of_block && last != next_use_of_extent_)
      i.waits.push_back(extents_[static_cast<size_t>(last)].load);  // the disk reads it behind the others
  }

  void step() {
    const int store_before = std::exchange(step_end_.store, -1);
    begin_keys(store_before);
    for (int u = 0; u < end_unit(now()); ++u) {
      const int first = static_cast<int>(program_.instructions.size());
      forward(u, u == 0 && store_before >= 0 ? std::vector<int>{store_before} : std::vector<int>{});
      if (moved(u)) store_keys(u, first);
    }
  }

  void forward(int u, std::vector<int> waits) {
    const InferenceUnit& weights = weights_of(u);
    begin_experts(u);
    const auto own = static_cast<int>(weights.parts.size()), parts = own + static_cast<int>(uses_.size());
    for (int p = 0; p <= parts; ++p) {
      Instruction i{.unit = u, .micro = micro_, .part = p};
      if (u > 0) i.reads.push_back(output(u - 1));
      if (p == 0) begin_unit(u, i), i.waits = std::move(waits);
      i.workspace_bytes = workspace_;
      const bool streams = 0 < p && p <= own && weights.parts[static_cast<size_t>(p) - 1] > 0;
      if (streams) use_extent(i);
      if (p > own) use_expert(i, own);
      if (p == parts && u > 0) i.frees.push_back(output(u - 1));
      if (p == parts && u + 1 == end_unit(now())) i.frees.push_back(output(u));  // logits go to the caller
      step_end_.forward = emit(std::move(i));
      if (streams) load_extents(next_use_of_extent_++);
      if (!uses_.empty() && p >= *weights.router_part) load_experts(u, p, own);
    }
  }

  // --- experts that are read as the router chooses them ---

  void begin_experts(int u) {
    uses_ = now().experts.empty() ? std::span<const ExpertUse>{} : now().experts[static_cast<size_t>(u)];
    next_use_ = 0;
    TERN_CHECK(uses_.empty() || weights_of(u).router_part, "lower_inference: unit {} uses experts without a router", u);
  }

  // `own`: the last part of the unit that uses no expert.
  void use_expert(Instruction& i, int own) const {
    const ExpertUse& use = uses_[static_cast<size_t>(i.part - own) - 1];
    i.reads.push_back(brought(i.unit, i.part, use));
    if (!use.number) i.frees.push_back(i.reads.back());
  }
  Buffer brought(int u, int part, const ExpertUse& use) const {
    if (use.number) return expert({u, *use.number});
    return {.kind = BufferKind::expected_expert, .unit = u, .micro = micro_, .part = part};
  }

  // Behind part `p`: those that may begin now. The disk takes them in the order of their use.
  void load_experts(int u, int p, int own) {
    for (; next_use_ < uses_.size(); ++next_use_) {
      const ExpertUse& use = uses_[next_use_];
      if (!use.read) continue;
      if (use.replaces && use.replaces->unit == u && is_still_used(*use.replaces, std::max(p - own, 0))) return;
      const int part = own + 1 + static_cast<int>(next_use_);
      Instruction i{.op = Opcode::load, .unit = u, .micro = micro_, .part = part, .resource = Resource::disk};
      i.allocates = {{brought(u, part, use), 0}};
      if (use.replaces) i.frees = {expert(*use.replaces)};
      i.message_bytes = use.bytes;
      i.waits = {step_end_.forward};
      emit(std::move(i));
    }
  }
  // Whether a use before the next LOAD's, but not among the first `done`, is of this matrix.
  bool is_still_used(const ExpertMatrix& m, int done) const {
    for (size_t k = static_cast<size_t>(done); k < next_use_; ++k)
      if (uses_[k].number == m.number) return true;
    return false;
  }

  void begin_unit(int u, Instruction& i) {
    if (moved(u)) i.reads.push_back(keys(u));
    if (u == head()) return begin_head(i);
    CostQuery query = now().query;
    const InferenceUnit& weights = weights_of(u);
    const ScratchBytes others = query.scratch;
    query.scratch = [&weights, &others](ProductKind kind, int64_t m, int64_t n, int64_t k) -> int64_t {
      if (kind == ProductKind::forward)
        if (const auto bytes = workspace_of(weights.products, n, k)) return *bytes;
      if (kind == ProductKind::expert_forward)
        if (const auto bytes = workspace_of(weights.expert_products, n, k)) return *bytes;
      return others ? others(kind, m, n, k) : 0;
    };
    const UnitCost cost = unit_cost(spec_.units[static_cast<size_t>(u)], query);
    i.allocates.push_back({output(u), cost.output_bytes});
    workspace_ = std::max(cost.unsaved_workspace, query.tokens * weights.table_row_bytes);
    i.flops = cost.forward_flops, i.bytes_moved = cost.forward_bytes_moved;
  }

  // model/unit.h, head_logits: the rows gathered, the same normed, and their logits.
  void begin_head(Instruction& i) {
    const HeadSpec& u = spec_.head();
    const DType dtype = now().query.dtype;
    const int64_t rows = now().logit_rows, size = size_of(dtype), wide = size_of(wide_type(dtype));
    const auto products = workspace_of(weights_of(head()).products, u.vocab, u.width);
    i.allocates.push_back({output(head()), rows * u.vocab * wide});
    workspace_ = 2 * rows * u.width * size + products.value_or(0);
    i.flops = 2 * rows * u.vocab * u.width;
    i.bytes_moved = u.vocab * u.width * size + rows * (u.vocab * wide + 4 * u.width * size);
  }

  // --- keys and values on the disk ---

  std::optional<KvMoved> moved(int u) const {
    return now().keys.empty() ? std::nullopt : now().keys[static_cast<size_t>(u)];
  }

  // A step begins to read its keys when the step before has ended.
  void begin_keys(int store_before) {
    TERN_CHECK(now().keys.empty() || now().keys.size() == spec_.units.size(),
               "lower_inference: keys of {} units, the model has {}", now().keys.size(), spec_.units.size());
    layers_.clear();
    next_layer_ = 0;
    for (int u = 0; u < head(); ++u)
      if (moved(u)) layers_.push_back(u);
    TERN_CHECK(layers_.empty() || in_.keys_slots > 0, "lower_inference: keys of {} layers without slots",
               layers_.size());
    std::vector<int> before;
    for (const int place : {step_end_.forward, store_before})
      if (place >= 0) before.push_back(place);
    for (int slot = 0; slot < in_.keys_slots; ++slot) load_next_keys(before);
  }

  void load_next_keys(std::vector<int> waits) {
    if (next_layer_ == layers_.size()) return;
    const int u = layers_[next_layer_++];
    emit({.op = Opcode::load,
          .unit = u,
          .micro = micro_,
          .resource = Resource::disk,
          .allocates = {{keys(u), 0}},
          .message_bytes = moved(u)->read,
          .waits = std::move(waits)});
  }

  // `first`: the place of the unit's part 0.
  void store_keys(int u, int first) {
    std::vector<int> waits{first};
    if (step_end_.forward != first) waits.push_back(step_end_.forward);
    step_end_.store = emit({.op = Opcode::store,
                            .unit = u,
                            .micro = micro_,
                            .resource = Resource::disk,
                            .reads = {keys(u)},
                            .frees = {keys(u)},
                            .message_bytes = moved(u)->written,
                            .waits = std::move(waits)});
    load_next_keys({step_end_.store});
  }

  const ModelSpec& spec_;
  const InferenceInput& in_;
  Program program_;
  int micro_ = 0;
  int64_t workspace_ = 0;           // of the unit at hand
  std::vector<ExtentUse> extents_;  // of all steps, in the order of use
  size_t next_load_ = 0;
  int next_use_of_extent_ = 0;
  std::vector<int> layers_;  // of the step: units whose keys lie on the disk
  size_t next_layer_ = 0;
  std::span<const ExpertUse> uses_;  // of the unit at hand
  size_t next_use_ = 0;              // whose LOAD, if it has one, comes next
  struct {
    int forward = -1, store = -1;  // of the last FORWARD; of the step's last STORE; −1 before there is one
  } step_end_;
};

}  // namespace

Program lower_inference(const ModelSpec& spec, const InferenceInput& in) { return InferenceLowerer(spec, in).run(); }

}  // namespace tern
