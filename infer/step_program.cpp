#include "infer/step_program.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/matmul.h"
#include "model/linear.h"
#include "model/visit_weights.h"
#include "program/expert_rules.h"

namespace tern {
namespace {

// Cuts a unit's FORWARD into parts, matrix by matrix in the order of a pass.
class PartCutter {
 public:
  explicit PartCutter(InferenceUnit& unit) : unit_(unit), parts_(unit.parts) {}
  // The part in which a band is multiplied. `bytes`: that the disk reads for it; 0: it stays.
  int band(int64_t bytes) {
    if (bytes == 0) end_run();
    if (bytes > 0) parts_.push_back(bytes), in_run_ = true;
    return static_cast<int>(parts_.size());
  }
  void end_matrix() { end_run(); }
  // Experts that are read begin behind the router; what the unit computes meanwhile has a part of its own.
  void end_router(const MoeSpec& moe) {
    if (unit_.router_part) return;
    unit_.router_part = static_cast<int>(parts_.size());
    if (moe.shared_hidden > 0) parts_.push_back(0);
  }

 private:
  void end_run() {
    if (std::exchange(in_run_, false)) parts_.push_back(0);
  }
  InferenceUnit& unit_;
  std::vector<int64_t>& parts_;
  bool in_run_ = false;
};

bool is_router(const std::string& name) { return name.ends_with(".router.weight"); }

struct PartPlace {
  int unit = 0, part = 0;
  friend auto operator<=>(const PartPlace&, const PartPlace&) = default;
};
// The units' parts as planned, and the one in which each band is multiplied.
struct PlannedParts {
  std::vector<InferenceUnit> units;
  std::vector<PartPlace> places;
};
PlannedParts planned_parts(const ModelSpec& spec, const StreamPlan& plan) {
  PlannedParts planned{.units = std::vector<InferenceUnit>(spec.units.size()), .places = {}};
  const auto is_read = [&](int unit) { return std::ranges::count(plan.bands.experts, unit, &FileExperts::unit) > 0; };
  const auto end_router = [&](int unit) {
    if (is_read(unit))
      PartCutter(planned.units[static_cast<size_t>(unit)]).end_router(*moe_of(spec.units[static_cast<size_t>(unit)]));
  };
  const std::vector<int> units = units_of_matrices(spec, plan.bands);
  for (size_t i = 0; i < units.size(); ++i) {
    const FileMatrix& m = plan.bands.matrices[i];
    const bool router = is_router(m.name);
    if (!router) end_router(units[i]);  // which stays
    PartCutter cutter(planned.units[static_cast<size_t>(units[i])]);
    for (const FileBand& band : m.bands) {
      const bool stays = plan.stays[planned.places.size()];
      planned.places.push_back({units[i], cutter.band(stays ? 0 : blocks_of(band.extent, kStreamAlignment).bytes)});
    }
    cutter.end_matrix();
    if (router) end_router(units[i]);
  }
  for (const FileExperts& experts : plan.bands.experts) end_router(experts.unit);
  return planned;
}

// Bytes of a matrix' rows that are decoded, and then packed, before an exact product.
int64_t decoded_bytes(int64_t rows, int64_t in, DType dtype) {
  const bool packs = dtype != DType::f64 && !reads_plain_weights(dtype);
  return rows * in * size_of(dtype) + (packs ? packed_bytes(dtype, rows, in) : 0);
}

// The bands of one matrix, and the workspace of its products as planned.
ProductWorkspace planned_workspace(const FileMatrix& m, std::vector<bool>::const_iterator stays, DType dtype) {
  ProductWorkspace most{.out = m.out, .in = m.in};
  int64_t coded_run = 0;
  for (const FileBand& band : m.bands) {
    const bool stay = *stays++;
    const bool coded = stay && !stays_packed(band, m.in, dtype);
    coded_run = coded ? coded_run + band.rows : 0;
    if (band.in_integers || multiplies_coded(dtype)) continue;
    if (coded) most.decoded_bytes = std::max(most.decoded_bytes, decoded_bytes(coded_run, m.in, dtype));
    if (!stay && !multiplies_as_streamed(band.type, band.head_dim, band.extent.offset, dtype))
      most.decoded_bytes = std::max(most.decoded_bytes, band.rows * m.in * size_of(dtype));
  }
  return most;
}

// Of the rows that a part multiplies: those of the unit's first expert, or of what is expected of one the mean of its matrices.
double expert_bytes(const StreamPlan& plan, const Buffer& used) {
  const FileExperts& unit = *std::ranges::find(plan.bands.experts, used.unit, &FileExperts::unit);
  const auto bytes_of = [](const FileMatrix& m) {
    double bytes = 0;
    for (const FileBand& band : m.bands) bytes += static_cast<double>(band.extent.bytes);
    return bytes;
  };
  const double up = bytes_of(unit.up.front()), down = bytes_of(unit.down.front());
  return used.kind == BufferKind::expected_expert ? (up + down) / 2 : used.part % 2 == 0 ? up : down;
}

int64_t coded_workspace(const CodedWeight& w, int64_t rows, int64_t in, DType dtype) {
  return w.in_integers || multiplies_blocks(Multiply::exact, dtype) ? 0 : decoded_bytes(rows, in, dtype);
}

int64_t band_workspace(const WeightBand& band, int64_t in, DType dtype) {
  if (!band.ring) {
    const auto* coded = std::get_if<CodedWeight>(&band.kept);
    return coded ? coded_workspace(*coded, band.rows, in, dtype) : 0;
  }
  const int64_t offset = band.ring->extent(band.place).offset;
  if (band.in_integers) return 0;
  return multiplies_as_streamed(band.type, band.head_dim, offset, dtype) ? 0 : band.rows * in * size_of(dtype);
}

// The workspace of a loaded matrix' products.
ProductWorkspace loaded_workspace(const Linear& linear, DType dtype) {
  ProductWorkspace most{.out = linear.out, .in = linear.in};
  if (const auto* coded = std::get_if<CodedWeight>(&linear.weight))
    most.decoded_bytes = coded_workspace(*coded, linear.out, linear.in, dtype);
  else if (const auto* banded = std::get_if<BandedWeight>(&linear.weight)) {
    for (const WeightBand& band : banded->bands)
      most.decoded_bytes = std::max(most.decoded_bytes, band_workspace(band, linear.in, dtype));
  } else {
    most.decoded_bytes = forward_scratch_bytes(linear, 1, dtype, Multiply::exact);
  }
  return most;
}

// Of many experts that are alike one entry.
void add_distinct(std::vector<ProductWorkspace>& products, const ProductWorkspace& one) {
  if (std::ranges::count(products, one) == 0) products.push_back(one);
}

// A linear of a unit, and its first place in the ring's order; linears without one keep their order.
struct PlacedLinear {
  int unit = 0, place = -1;
  const Linear* linear = nullptr;
  bool router = false;
};

CyclicRing* ring_of(const BandedWeight& banded) {
  for (const WeightBand& band : banded.bands)
    if (auto* ring = dynamic_cast<CyclicRing*>(band.ring)) return ring;
  return nullptr;
}

bool is_read_when_chosen(const Linear& linear) {
  const auto* banded = std::get_if<BandedWeight>(&linear.weight);
  return banded && std::ranges::any_of(banded->bands, [](const WeightBand& band) {
           return band.ring && !dynamic_cast<CyclicRing*>(band.ring);
         });
}

int first_place(const BandedWeight& banded) {
  for (const WeightBand& band : banded.bands)
    if (band.ring) return band.place;
  return -1;
}

void cut_loaded(const Linear& linear, const CyclicRing& ring, PartCutter& cutter) {
  const auto* banded = std::get_if<BandedWeight>(&linear.weight);
  if (!banded) return;
  for (const WeightBand& band : banded->bands) cutter.band(band.ring ? ring.block_bytes(band.place) : 0);
  cutter.end_matrix();
}

int64_t table_row_bytes(const ModelWeights& weights) {
  const FileTable& table = embed_of(weights).tokens_in_file;
  return table.rows.files ? table.rows.row_bytes : 0;
}

int64_t page_bytes(const KvPool& pool) {
  const KvShape& shape = pool.shape();
  int64_t bytes = 0;
  for (size_t l = 0; l < shape.layers.size(); ++l) {
    const KvLayer& layer = shape.layers[l];
    if (pool.on_disk() && pool.on_disk()->holds(static_cast<int>(l))) continue;
    bytes += 2 * layer.kv_heads * kv_row_bytes(shape.type, layer.head_dim) * shape.page_tokens * pool.num_pages();
  }
  return bytes;
}

}  // namespace

int kv_layer_of(const Unit& unit) {
  const AttentionSpec* attention = attention_of(unit);
  return attention && !attention->cross ? unit.layer : -1;
}

StepWeights step_weights(const ModelSpec& spec, DType dtype, const StreamPlan& plan) {
  PlannedParts parts = planned_parts(spec, plan);
  StepWeights w{.dtype = dtype, .units = std::move(parts.units)};
  std::vector<Extent> streamed;
  size_t at = 0;
  for (const FileMatrix& m : plan.bands.matrices) {
    w.units[static_cast<size_t>(parts.places[at].unit)].products.push_back(
        planned_workspace(m, plan.stays.begin() + static_cast<ptrdiff_t>(at), dtype));
    for (const FileBand& band : m.bands)
      if (!plan.stays[at++]) streamed.push_back(band.extent);
  }
  for (const FileExperts& unit : plan.bands.experts)
    for (const auto* matrices : {&unit.up, &unit.down})
      for (const FileMatrix& m : *matrices) {
        const std::vector<bool> streams(m.bands.size(), false);
        add_distinct(w.units[static_cast<size_t>(unit.unit)].expert_products,
                     planned_workspace(m, streams.begin(), dtype));
      }
  if (const FileBand& table = plan.bands.table; table.rows > 0)
    w.units.front().table_row_bytes = table.extent.bytes / table.rows;
  w.slots = streamed.empty() ? 0 : plan.ring.slots;
  w.window = plan.ring.window;
  w.slot_bytes = streamed.empty() ? 0 : CyclicRing::bytes_for(streamed, 1, kStreamAlignment);
  w.weight_bytes = plan.fit.weights;
  w.experts = step_experts(plan);
  return w;
}

StepWeights step_weights(const ModelSpec& spec, WeightSource source) {
  StepWeights w{.units = std::vector<InferenceUnit>(spec.units.size())};
  {
    const WeightLease lease = source.acquire(0);
    w.dtype = std::get<EmbedWeights>(*lease).tokens.dtype();
  }
  if (!source.resident()) return w;
  ModelWeights weights = *source.resident();  // tensors are shared
  std::vector<PlacedLinear> linears;
  for_each_linear(spec, weights, [&](const ParameterInfo& info, const Linear& linear) {
    if (is_read_when_chosen(linear))
      return add_distinct(w.units[static_cast<size_t>(info.unit)].expert_products, loaded_workspace(linear, w.dtype));
    const bool head = &linear == &head_of(weights).projection;
    PlacedLinear placed{.unit = head ? static_cast<int>(spec.units.size()) - 1 : info.unit,
                        .linear = &linear,
                        .router = is_router(info.name)};
    if (const auto* banded = std::get_if<BandedWeight>(&linear.weight))
      if (CyclicRing* ring = ring_of(*banded)) w.ring = ring, placed.place = first_place(*banded);
    linears.push_back(placed);
  });
  std::ranges::stable_sort(linears, {}, [](const PlacedLinear& l) { return std::pair{l.unit, l.place}; });
  w.experts = step_experts(spec, weights);
  for (const PlacedLinear& l : linears) {
    InferenceUnit& unit = w.units[static_cast<size_t>(l.unit)];
    unit.products.push_back(loaded_workspace(*l.linear, w.dtype));
    PartCutter cutter(unit);
    if (w.ring) cut_loaded(*l.linear, *w.ring, cutter);
    if (l.router && std::ranges::count(w.experts.items, l.unit, &ExpertMatrix::unit) > 0)
      cutter.end_router(*moe_of(spec.units[static_cast<size_t>(l.unit)]));
  }
  w.units.front().table_row_bytes = table_row_bytes(weights);
  if (w.ring) w.slots = w.ring->num_slots(), w.slot_bytes = w.ring->slot_bytes(), w.window = w.ring->settings().window;
  return w;
}

InferenceStep step_of(const ModelSpec& spec, const StepWeights& weights, const StepBatch& batch) {
  InferenceStep step{.query = {.tokens = batch.tokens, .attended_pairs = batch.attended_pairs, .dtype = weights.dtype},
                     .logit_rows = batch.logit_rows,
                     .experts = batch.experts};
  const DType dtype = weights.dtype;
  std::vector<int64_t> ranks;  // of adapters, whose matrices are not packed beforehand
  for (const Unit& unit : spec.units)
    for (const ModuleAdapter& adapter : unit.adapters) ranks.push_back(adapter.rank);
  if (!ranks.empty() && dtype != DType::f64 && !reads_plain_weights(dtype))
    step.query.scratch = [dtype, ranks](ProductKind, int64_t, int64_t n, int64_t k) -> int64_t {
      return std::ranges::count(ranks, n) + std::ranges::count(ranks, k) > 0 ? packed_bytes(dtype, n, k) : 0;
    };
  if (batch.layers_on_disk.empty()) return step;
  TERN_CHECK(batch.moved.empty() || batch.moved.size() == batch.layers_on_disk.size(),
             "step_of: {} layers, {} of them moved", batch.layers_on_disk.size(), batch.moved.size());
  for (const Unit& unit : spec.units) {
    const auto at = std::ranges::find(batch.layers_on_disk, kv_layer_of(unit));
    if (at == batch.layers_on_disk.end()) {
      step.keys.emplace_back();
      continue;
    }
    const KvMoved moved =
        batch.moved.empty() ? KvMoved{} : batch.moved[static_cast<size_t>(at - batch.layers_on_disk.begin())];
    step.keys.emplace_back(moved);
  }
  return step;
}

Program step_program(const ModelSpec& spec, const StepWeights& weights, std::span<const StepBatch> batches,
                     const KvPool* pool, std::vector<ExpertMatrix> there) {
  InferenceInput in{.units = weights.units,
                    .extent_slots = weights.slots,
                    .extent_slot_bytes = weights.slot_bytes,
                    .weight_bytes = weights.weight_bytes,
                    .expert_slot_bytes = weights.experts.slot_bytes,
                    .experts_there = std::move(there),
                    .extent_window = weights.window};
  for (const StepBatch& batch : batches) in.steps.push_back(step_of(spec, weights, batch));
  if (pool) in.page_bytes = page_bytes(*pool);
  if (pool && pool->on_disk())
    in.keys_slots = pool->on_disk()->num_slots(), in.keys_slot_bytes = pool->on_disk()->slot_bytes();
  return lower_inference(spec, in);
}

std::vector<int64_t> step_times(const Program& program, const ModelSpec& spec, const StreamPlan& plan,
                                const StreamRates& rates) {
  struct PartTimes {
    int64_t load_ps = 0, forward_ps = 0;
  };
  std::map<PartPlace, PartTimes> times;
  const std::vector<PassStep> steps = pass_steps(plan, rates);
  const std::vector<PartPlace> places = planned_parts(spec, plan).places;
  for (size_t at = 0; at < places.size(); ++at) {
    PartTimes& t = times[places[at]];
    t.load_ps += steps[at].load_ps, t.forward_ps += steps[at].forward_ps;
  }
  std::vector<int64_t> ps;
  for (const Instruction& i : program.instructions) {
    const PartTimes t = times[{i.unit, i.part}];
    if (uses_expert(i))
      ps.push_back(picoseconds(expert_bytes(plan, *std::ranges::find_if(i.reads, is_expert)),
                               rates.experts > 0 ? rates.experts : rates.coded));
    else if (i.op == Opcode::forward)
      ps.push_back(t.forward_ps);
    else if (i.part > 0 && !is_expert(i.allocates[0].buffer))
      ps.push_back(t.load_ps);
    else
      ps.push_back(picoseconds(static_cast<double>(i.message_bytes), rates.disk));
  }
  return ps;
}

}  // namespace tern
