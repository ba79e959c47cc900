#include "program/lower.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "base/error.h"
#include "base/wide_type.h"
#include "program/layer_collectives.h"
#include "program/micro_batch_costs.h"
#include "program/update_instructions.h"
#include "spec/recompute.h"
#include "spec/sum_order.h"

namespace tern {
namespace {

Buffer output(int u, int m) { return {BufferKind::output, u, m}; }
Buffer saved(int u, int m) { return {BufferKind::saved, u, m}; }
Buffer gradient(int u, int m) { return {BufferKind::gradient, u, m}; }
Buffer left(int u, int m) { return {BufferKind::left, u, m}; }

// A transfer that runs beside the compute: where it was issued, and what its end gives up.
struct Transfer {
  int place;
  std::vector<Buffer> frees;
  int64_t bytes = 0;  // of gradients that are summed
};

class Lowerer {
 public:
  Lowerer(const ModelSpec& spec, const Placement& placement, const MicroBatchCosts& costs, int rank)
      : spec_(spec),
        at_(placement),
        costs_(costs),
        shared_(spec, placement),
        rank_(rank),
        split_(splits_backward(placement.shape.schedule)) {
    const int stages = at_.shape.num_virtual_stages(), micros = at_.shape.num_micro;
    TERN_CHECK(spec.units.size() >= 2, "program: {} units; a model has an embedding and a head", spec.units.size());
    TERN_CHECK(micros >= 1, "program: no micro-batches");
    TERN_CHECK(at_.groups == 1 || (at_.groups >= 1 && micros % at_.groups == 0 && stages == 1),
               "lower: {} groups of {} micro-batches in {} stages", at_.groups, micros, stages);
    TERN_CHECK(!at_.updates_in_backward || (micros == 1 && stages == 1 && at_.mesh.devices() == 1 &&
                                            at_.update.clip == 0 && !sums_over_model(at_) && !at_.aggregate_values),
               "lower: updates in the backward of {} micro-batches in {} stages, or gradients that depend on others",
               micros, stages);
    TERN_CHECK(rank >= 0 && rank < at_.shape.num_devices, "lower: rank {} of {}", rank, at_.shape.num_devices);
    first_layer_.assign(static_cast<size_t>(stages) + 1, static_cast<int>(at_.layers.size()));
    for (int l = static_cast<int>(at_.layers.size()) - 1; l >= 0; --l) first_layer_[at_.layers[l].stage] = l;
    for (size_t l = 0; l < at_.layers.size(); ++l)
      TERN_CHECK(at_.groups == 1 || !shared_.reduces_each_micro(static_cast<int>(l)),
                 "lower: {} groups, and layer {} sums each micro-batch over ranks", at_.groups, l);
    for (int s = 0; s < stages; ++s)
      TERN_CHECK(first_layer_[s] < first_layer_[s + 1], "lower: stage {} of {} has no layer", s, stages);
    program_.num_ranks = at_.shape.num_devices;
    program_.num_units = static_cast<int>(spec.units.size());
    program_.num_micro = micros;
    program_.devices_per_rank = at_.mesh.devices();
  }

  Program step(const std::vector<PipelineOp>& ops) {
    program_.resident.resize(static_cast<size_t>(at_.shape.num_devices));
    for (int l = 0; l < num_layers(); ++l)
      if (is_here(at_.layers[l].stage)) begin_layer(l);
    for (const PipelineOp& op : ops) {
      stage_ = op.stage, micro_ = op.micro;
      op.phase == Phase::forward ? forward() : op.phase == Phase::backward ? backward() : weight();
    }
    end_of_step();
    return std::move(program_);
  }

  Program forward_alone() {
    for (micro_ = 0; micro_ < program_.num_micro; ++micro_)
      for (int u = 0; u <= last(); ++u) {
        Instruction i = forward_of(Opcode::forward, u);
        keep_nothing(i);
        if (u == last()) i.flops /= spec_.units.back().frozen ? 2 : 3;  // one product alone: no gradients
        if (u > 0) i.frees = {output(u - 1, micro_)};
        compute(std::move(i));
      }
    return std::move(program_);
  }

 private:
  int last() const { return static_cast<int>(spec_.units.size()) - 1; }
  int num_layers() const { return static_cast<int>(at_.layers.size()); }
  bool is_here(int stage) const { return device_of(at_.shape, stage) == rank_; }
  int64_t wide() const { return size_of(wide_type(at_.query(0, 0).dtype)); }  // bytes of an element at the step's end
  bool pipelined() const { return at_.shape.num_devices > 1; }
  const UnitCost& cost(int u) const { return costs_.of(u, std::max(micro_, 0)); }
  const SwappedBytes& swaps(int u) const { return costs_.swaps_of(u, std::max(micro_, 0)); }
  const RingBytes& ring(int u) const { return costs_.rings_of(u, std::max(micro_, 0)); }
  const RoutedBytes& routed(int u) const { return costs_.routed_of(u, std::max(micro_, 0)); }
  const Layer& layer(int l) const { return at_.layers[l].layer; }
  int first_unit() const { return layer(first_layer_[stage_]).first; }
  int end_unit() const {
    const Layer& end = layer(first_layer_[stage_ + 1] - 1);
    return end.first + end.count;
  }

  // --- issue ---

  int emit(Instruction i) {
    i.rank = rank_, i.stage = stage_;
    program_.instructions.push_back(std::move(i));
    return static_cast<int>(program_.instructions.size()) - 1;
  }
  // On the compute clock: the first of an operation waits for what the operation received.
  void compute(Instruction i) {
    i.waits.insert(i.waits.end(), arrivals_.begin(), arrivals_.end());
    arrivals_.clear();
    last_compute_ = emit(std::move(i));
  }
  // Leaves `room` transfers under way.
  void join(std::deque<Transfer>& transfers, size_t room) {
    for (; transfers.size() > room; transfers.pop_front()) {
      const Buffer& b = transfers.front().frees.front();
      compute({.op = Opcode::join,
               .unit = b.unit,
               .micro = b.micro,
               .frees = transfers.front().frees,
               .waits = {transfers.front().place}});
    }
  }

  void receive(const Buffer& b, int from_stage) {
    if (from_stage < 0 || from_stage >= at_.shape.num_virtual_stages() || is_here(from_stage)) return;
    const int64_t bytes = cost(b.unit).output_bytes;
    arrivals_.push_back(emit({.op = Opcode::recv,
                              .unit = b.unit,
                              .micro = micro_,
                              .resource = Resource::link,
                              .allocates = {{b, bytes}},
                              .peer = device_of(at_.shape, from_stage),
                              .message_bytes = bytes}));
  }
  void send(const Buffer& b, int to_stage, Phase phase) {
    if (to_stage < 0 || to_stage >= at_.shape.num_virtual_stages() || is_here(to_stage)) return;
    const int place = emit({.op = Opcode::send,
                            .unit = b.unit,
                            .micro = micro_,
                            .resource = Resource::link,
                            .reads = {b},
                            .peer = device_of(at_.shape, to_stage),
                            .message_bytes = cost(b.unit).output_bytes,
                            .waits = {last_compute_}});
    sends_[phase].push_back({place, {b}});
  }

  // --- what a layer shares with its replicas ---

  void begin_layer(int l) {
    const LayerStrategy& s = at_.layers[l].strategy;
    const TierBytes resident = shared_.resident(l);
    for (int tier = 0; tier < kTiers; ++tier)
      if (resident[tier] > 0)
        program_.resident[rank_].push_back(
            {{BufferKind::persistent, layer(l).first, -1, static_cast<Tier>(tier)}, resident[tier]});
    if (s.zero != 1 && s.zero != 2) return;
    stage_ = at_.layers[l].stage;
    for (Instruction& i : shared_.over(Opcode::gather, l, -1, shared_.parameters(l).trained, size_of(at_.job.dtype)))
      compute(std::move(i));
  }

  void gather(int l) {
    bool first = true;
    for (Instruction& i : shared_.gathers(l, micro_)) {
      const Buffer whole{first ? BufferKind::gathered : BufferKind::gathered_experts, layer(l).first, micro_};
      i.allocates = {{whole, i.message_bytes}};
      compute(std::move(i));
      first = false;
    }
  }

  // After the layer's last weight gradient of a micro-batch.
  void reduce(int l) {
    const int zero = at_.layers[l].strategy.zero;
    const bool each = zero >= 2, ends = micro_ + 1 == program_.num_micro;
    if ((!each && !ends) || at_.aggregate_values) return;
    const LayerParameters& n = shared_.parameters(l);
    for (Instruction& i : shared_.over(zero == 0 ? Opcode::reduce : Opcode::scatter, l, each ? micro_ : -1, n.trained,
                                       size_of(at_.job.gradients))) {
      i.resource = Resource::gradient_link;
      i.waits = {last_compute_};
      const Buffer part{i.axis == MeshAxis::replicas ? BufferKind::summand : BufferKind::summand_experts,
                        layer(l).first, micro_};
      if (each) i.reads = {part};
      last_reduce_ = emit(i);
      if (each) scatters_.push_back({last_reduce_, {part}, i.message_bytes});
    }
    if (ends && pipelined() && n.tables > 0)
      last_reduce_ = emit({.op = Opcode::reduce,
                           .unit = layer(l).first + layer(l).count - 1,
                           .micro = -1,
                           .resource = Resource::gradient_link,
                           .axis = MeshAxis::tables,
                           .message_bytes = shared_.table_bytes(l),
                           .waits = {last_compute_}});
  }

  // --- units ---

  bool remakes(int l, int u) const { return is_recomputed(spec_.units[u], at_.layers[l].strategy.recompute); }
  // Where the embedding keeps nothing saved(0) does not exist; the head ends in a loss, so output(last) does not.
  bool keeps(int u) const { return u > 0 || cost(u).saved_bytes > 0; }

  Instruction forward_of(Opcode op, int u) const {
    const UnitCost& c = cost(u);
    Instruction i{.op = op, .unit = u, .micro = micro_};
    if (u > 0) i.reads = {output(u - 1, micro_)};
    if (u < last()) i.allocates.push_back({output(u, micro_), c.output_bytes});
    if (keeps(u)) i.allocates.push_back({saved(u, micro_), c.saved_bytes});
    i.workspace_bytes = c.forward_workspace;
    i.exchanged_bytes = c.forward_exchanged, i.swapped_bytes = swaps(u).forward, i.ring_bytes = ring(u).forward;
    i.routed_bytes = routed(u).forward, i.told_bytes = routed(u).told;
    i.flops = c.forward_flops;
    i.bytes_moved = c.forward_bytes_moved;
    return i;
  }
  void keep_nothing(Instruction& i) const {
    std::erase_if(i.allocates, [](const BufferBytes& b) { return b.buffer.kind == BufferKind::saved; });
    i.workspace_bytes = cost(i.unit).unsaved_workspace;
  }
  // Makes saved(u) again; the output that comes with it has no reader and ends at once.
  void remake(int u) {
    Instruction i = forward_of(Opcode::recompute, u);
    for (BufferBytes& b : i.allocates)
      if (b.buffer.kind == BufferKind::output) {
        b.buffer.kind = BufferKind::remade;
        i.frees = {b.buffer};
      }
    compute(std::move(i));
  }
  void backward_input(int u, std::vector<Buffer> frees) {
    const UnitCost& c = cost(u);
    Instruction i{.op = Opcode::backward_input, .unit = u, .micro = micro_};
    i.reads = {output(u - 1, micro_), saved(u, micro_)};
    if (u < last()) i.reads.push_back(gradient(u, micro_));
    i.allocates = {{gradient(u - 1, micro_), cost(u - 1).output_bytes}, {left(u, micro_), c.left_bytes}};
    i.frees = std::move(frees);
    i.workspace_bytes = c.backward_input_workspace;
    i.exchanged_bytes = c.backward_input_exchanged, i.swapped_bytes = swaps(u).backward_input;
    i.ring_bytes = ring(u).backward_input;
    i.routed_bytes = routed(u).backward_input;
    i.flops = c.backward_input_flops;
    i.bytes_moved = c.backward_input_bytes_moved;
    compute(std::move(i));
  }
  void backward_weight(int l, int u, const std::vector<Buffer>& weights_end = {}) {
    const UnitCost& c = cost(u);
    Instruction i{.op = Opcode::backward_weight, .unit = u, .micro = micro_};
    if (u > 0)
      i.reads = {output(u - 1, micro_), saved(u, micro_), left(u, micro_)};
    else if (keeps(u))
      i.reads = {saved(u, micro_)};
    if (u < last()) i.reads.push_back(gradient(u, micro_));
    i.frees = i.reads;  // the last reader of all of them
    i.frees.insert(i.frees.end(), weights_end.begin(), weights_end.end());
    i.workspace_bytes = c.backward_weight_workspace;
    i.exchanged_bytes = c.backward_weight_exchanged, i.swapped_bytes = swaps(u).backward_weight;
    i.flops = c.backward_weight_flops;
    i.bytes_moved = c.backward_weight_bytes_moved;
    if (u == layer(l).first + layer(l).count - 1 && u < last()) begin_summand(l, i);
    compute(std::move(i));
    if (u == 0 && ((micro_ + 1) % group_length() == 0 || shared_.reduces_each_micro(l))) join_tables();
    if ((micro_ + 1) % group_length() == 0) merge(u);
    if (u != layer(l).first) return;
    if (at_.updates_in_backward) return update_layer(l);
    if (micro_ + 1 == program_.num_micro || sums_each(l)) reduce_alike(l);
    reduce(l);
  }
  bool sums_each(int l) const { return shared_.reduces_each_micro(l) && at_.mesh.replicas() > 1; }
  // What several ranks of a tensor group hold alike: each has seen its rows, or its heads.
  void reduce_alike(int l) {
    AlikeParameters n;
    for (int u = layer(l).first; u < layer(l).first + layer(l).count; ++u) {
      if (cost(u).trained == 0) continue;
      const AlikeParameters own = alike_parameters(spec_.units[u], at_.mesh.tensor);
      n.all += own.all, n.keys += own.keys;
    }
    const auto sum = [&](MeshAxis axis, int64_t elements) {
      if (elements == 0) return;
      Instruction i{.op = Opcode::reduce,
                    .unit = layer(l).first,
                    .micro = sums_each(l) ? micro_ : -1,
                    .axis = axis,
                    .message_bytes = elements * size_of(at_.job.gradients)};
      if (sums_each(l)) i.reads = {{BufferKind::summand, layer(l).first, micro_}};
      compute(std::move(i));
    };
    sum(MeshAxis::tensor, n.all), sum(MeshAxis::keys, n.keys);
  }
  // The gradients of a layer of one micro-batch: from its first weight gradient, the head's from its FORWARD.
  void begin_summand(int l, Instruction& i) {
    if (at_.updates_in_backward) {
      const std::vector<BufferBytes> own = own_gradients(l);
      i.allocates.insert(i.allocates.end(), own.begin(), own.end());
    }
    if (!shared_.reduces_each_micro(l)) return;
    join(scatters_, 0);
    for (const Instruction& s : scatters_of(l))
      i.allocates.push_back(
          {{s.axis == MeshAxis::replicas ? BufferKind::summand : BufferKind::summand_experts, layer(l).first, micro_},
           s.message_bytes});
  }
  std::vector<Instruction> scatters_of(int l) {
    return shared_.over(Opcode::scatter, l, micro_, shared_.parameters(l).trained, size_of(at_.job.gradients));
  }
  // Before a layer's work. Gradients that are still being summed may take as many bytes as the layer's own, which
  // LayerCosts counts. The head's are counted apart, from the start of a forward to the end of the backward: until the head
  // begins its sum, others may take their place.
  void make_room(int l, Phase phase) {
    if (scatters_.empty()) return;
    const int head = num_layers() - 1;
    const bool with_head = stage_ == at_.layers.back().stage;
    const Buffer sum_of_head{BufferKind::summand, layer(head).first, micro_};
    if (with_head && scatters_.front().frees.front() == sum_of_head) return;
    const int64_t room = (l < head ? scatter_bytes(l) : 0) +
                         (with_head && phase == Phase::forward && l < head ? scatter_bytes(head) : 0);
    int64_t under_way = 0;
    for (const Transfer& t : scatters_) under_way += t.bytes;
    if (under_way > room) join(scatters_, 0);
  }
  int64_t scatter_bytes(int l) {
    int64_t bytes = 0;
    if (shared_.reduces_each_micro(l))
      for (const Instruction& s : scatters_of(l)) bytes += s.message_bytes;
    return bytes;
  }
  // Of updates in the backward: the layer's gradients, dense ones and those of experts.
  std::vector<BufferBytes> own_gradients(int l) {
    const LayerParameters& n = shared_.parameters(l);
    std::vector<BufferBytes> list;
    for (const int part : {0, 1})
      if (n.trained[part] > 0)
        list.push_back({{part == 0 ? BufferKind::summand : BufferKind::summand_experts, layer(l).first, micro_},
                        n.trained[part] * size_of(at_.job.gradients)});
    return list;
  }
  // Units that have no gradients are left to the end of the step.
  void update_layer(int l) {
    const int first = layer(l).first;
    std::vector<Buffer> gradients;
    for (const BufferBytes& b : own_gradients(l)) gradients.push_back(b.buffer);
    if (gradients.empty()) return;
    for (int u = first; u < first + layer(l).count; ++u) {
      Instruction i = update_instruction(spec_, at_, cost(u), {.layer = l, .unit = u});
      i.reads = gradients;
      if (u + 1 == first + layer(l).count) i.frees = gradients;
      i.flops += 2 * cost(u).trained, i.bytes_moved += cost(u).trained * wide();  // NORM's part
      compute(std::move(i));
    }
  }
  int group_length() const { return program_.num_micro / at_.groups; }
  // The embedding's gradient and a tied head's own become one.
  void join_tables() {
    const int64_t n = own_table_gradient(spec_.units.back(), at_.query(last(), 0));
    if (n == 0 || pipelined()) return;
    const int micro = micro_ + 1 == program_.num_micro ? -1 : micro_;
    compute({.op = Opcode::reduce, .unit = 0, .micro = micro, .flops = n, .bytes_moved = 4 * n * wide()});
  }
  void merge(int u) {
    const LeafStep step = leaf_step(micro_ / group_length(), at_.groups);
    const int64_t n = cost(u).trained;
    if (n == 0 || (step.merges == 0 && !step.kept)) return;
    Instruction i{.op = Opcode::merge, .unit = u, .micro = micro_, .flops = step.merges * n};
    i.bytes_moved = (step.merges + step.kept) * 3 * n * wide();
    std::vector<Buffer>& kept = kept_sums_[u];
    i.reads.assign(kept.end() - step.merges, kept.end());
    i.frees = i.reads;
    kept.resize(kept.size() - static_cast<size_t>(step.merges));
    if (step.kept) {
      kept.push_back({BufferKind::kept_sum, u, micro_});
      i.allocates = {{kept.back(), n * wide()}};
    }
    compute(std::move(i));
  }

  // --- activations off the device ---

  Tier tier(int l) const { return at_.layers[l].strategy.activations; }
  // What a layer keeps of a micro-batch: the inputs of its units, and what they saved.
  std::vector<BufferBytes> kept(int l) const {
    std::vector<BufferBytes> list;
    for (int u = layer(l).first; u < layer(l).first + layer(l).count; ++u) {
      if (u > 0) list.push_back({output(u - 1, micro_), cost(u - 1).output_bytes});
      if (keeps(u) && !remakes(l, u)) list.push_back({saved(u, micro_), cost(u).saved_bytes});
    }
    return list;
  }
  Instruction transfer(Opcode op, int l, int64_t bytes) const {
    return {.op = op,
            .unit = layer(l).first,
            .micro = micro_,
            .resource = Resource::host_link,
            .message_bytes = bytes,
            .waits = {last_compute_}};
  }
  void store(int l) {
    const std::vector<BufferBytes> all = kept(l);
    if (tier(l) == Tier::device || all.empty()) return;
    Instruction i = transfer(Opcode::store, l, 0);
    for (const BufferBytes& b : all) i.reads.push_back(b.buffer), i.message_bytes += b.bytes;
    i.allocates = {{{BufferKind::held, layer(l).first, micro_, tier(l)}, i.message_bytes}};
    const std::vector<Buffer> gone = i.reads;
    stores_.push_back({emit(std::move(i)), gone});
  }
  void load(int l) {
    const std::vector<BufferBytes> all = kept(l);
    if (tier(l) == Tier::device || all.empty()) return;
    join(stores_, 0);  // its buffers come back under the same names
    Instruction i = transfer(Opcode::load, l, 0);
    i.reads = i.frees = {{BufferKind::held, layer(l).first, micro_, tier(l)}};
    i.allocates = all;
    for (const BufferBytes& b : all) i.message_bytes += b.bytes;
    emit(std::move(i));
  }

  // --- operations of a stage ---

  void forward() {
    join(sends_[Phase::forward], 1);
    receive(output(first_unit() - 1, micro_), stage_ - 1);
    for (int l = first_layer_[stage_]; l < first_layer_[stage_ + 1]; ++l) {
      join(stores_, 1);
      make_room(l, Phase::forward);
      const int end = layer(l).first + layer(l).count;
      gather(l);
      for (int u = layer(l).first; u < end; ++u) {
        Instruction i = forward_of(Opcode::forward, u);
        if (remakes(l, u)) keep_nothing(i);
        if (u == last()) begin_summand(l, i);
        if (u + 1 == end) i.frees = shared_.gathered(l, micro_);
        compute(std::move(i));
      }
      store(l);
    }
    send(output(end_unit() - 1, micro_), stage_ + 1, Phase::forward);
  }

  void backward() {
    join(sends_[Phase::backward], 1);
    receive(gradient(end_unit() - 1, micro_), stage_ + 1);
    const int begin = first_layer_[stage_], end = first_layer_[stage_ + 1];
    load(end - 1);
    for (int l = end - 1; l >= begin; --l) {
      if (l > begin) load(l - 1);
      make_room(l, Phase::backward);
      const int first = layer(l).first, lowest = std::max(first, 1);
      if (!split_ || lowest < first + layer(l).count) gather(l);  // in a split backward the embedding has nothing to do
      for (int u = first + layer(l).count - 1; u >= first; --u) {
        if (remakes(l, u)) remake(u);
        if (u > 0) backward_input(u, split_ && u == lowest ? shared_.gathered(l, micro_) : std::vector<Buffer>{});
        if (!split_) backward_weight(l, u, u == first ? shared_.gathered(l, micro_) : std::vector<Buffer>{});
      }
    }
    send(gradient(first_unit() - 1, micro_), stage_ - 1, Phase::backward);
  }

  void weight() {
    for (int l = first_layer_[stage_ + 1] - 1; l >= first_layer_[stage_]; --l) {
      make_room(l, Phase::weight);
      for (int u = layer(l).first + layer(l).count - 1; u >= layer(l).first; --u) backward_weight(l, u);
    }
  }

  // The gradients of the whole model, once.
  void aggregate() {
    if (!at_.aggregate_values) return;
    TERN_CHECK(!pipelined() && at_.mesh.devices() > 1, "lower: gradients of {} ranks in {} stages are aggregated",
               at_.mesh.devices(), at_.shape.num_virtual_stages());
    int64_t trained = 0;
    for (int u = 0; u <= last(); ++u) trained += cost(u).trained;
    last_reduce_ = emit({.op = Opcode::reduce,
                         .unit = 0,
                         .micro = -1,
                         .resource = Resource::gradient_link,
                         .axis = MeshAxis::all,
                         .message_bytes = trained * size_of(at_.job.gradients) +
                                          *at_.aggregate_values * static_cast<int64_t>(sizeof(double)),
                         .waits = {last_compute_}});
  }

  void end_of_step() {
    micro_ = -1;
    for (auto& [phase, transfers] : sends_) join(transfers, 0);
    join(stores_, 0);
    join(scatters_, 0);
    aggregate();
    if (last_reduce_ >= 0) arrivals_.push_back(last_reduce_);
    int64_t trained = 0, shared_blocks = 0;                 // elements; blocks of which each rank has some alone
    const bool apart = pipelined() || at_.mesh.expert > 1;  // each rank has some of the model alone
    const auto each_unit = [&](auto&& visit) {
      for (int l = 0; l < num_layers(); ++l)
        if (is_here(at_.layers[l].stage))
          for (int u = layer(l).first; u < layer(l).first + layer(l).count; ++u) visit(l, u);
    };
    each_unit([&](int l, int u) {
      if (!at_.updates_in_backward) trained += cost(u).trained;
      if (is_shared_out(at_, l) && !apart) shared_blocks += trained_blocks(spec_.units[u]);
    });
    if (apart)
      for (const Unit& unit : spec_.units) shared_blocks += trained_blocks(unit);
    compute(norm_instruction(at_, trained, shared_blocks));
    each_unit([&](int l, int u) {
      if (at_.updates_in_backward && !own_gradients(l).empty()) return;
      stage_ = at_.layers[l].stage;
      // A table that lies on another device too is updated on each.
      const bool table_copy = pipelined() && !is_here(at_.layers.front().stage) && shared_.table_copy_of(u).trained > 0;
      compute(update_instruction(spec_, at_, cost(u), {.layer = l, .unit = u, .table_copy = table_copy}));
    });
  }

  const ModelSpec& spec_;
  const Placement& at_;
  const MicroBatchCosts& costs_;
  LayerCollectives shared_;
  int rank_, stage_ = 0, micro_ = 0;  // of the operation being lowered
  bool split_;
  std::vector<int> first_layer_;  // of each virtual stage; the last entry is the end
  Program program_;
  std::vector<int> arrivals_;                    // places that the next instruction on the compute clock waits for
  std::map<Phase, std::deque<Transfer>> sends_;  // under way
  std::deque<Transfer> stores_, scatters_;
  std::map<int, std::vector<Buffer>> kept_sums_;  // of a unit, the oldest first
  int last_compute_ = -1, last_reduce_ = -1;      // places; −1 before there is one
};

PipelineOrder order_of(const Placement& p) {
  if (!p.order.empty()) return p.order;
  if (order_follows_times(p.shape.schedule))
    throw Error(ErrorKind::usage,
                "lower: the order of {} follows the times of its stages, which this plan does not say: plan anew",
                name_of(p.shape.schedule));
  return pipeline_order(p.shape, {});
}

}  // namespace

Program lower(const ModelSpec& spec, const Placement& placement, int rank) {
  const PipelineOrder order = order_of(placement);
  const MicroBatchCosts costs(spec, placement);
  Lowerer one(spec, placement, costs, rank);
  return one.step(order[rank]);
}

Program lower(const ModelSpec& spec, const Placement& placement) {
  const PipelineOrder order = order_of(placement);
  const MicroBatchCosts costs(spec, placement);
  Program all;
  for (int rank = 0; rank < placement.shape.num_devices; ++rank) {
    Program one = Lowerer(spec, placement, costs, rank).step(order[rank]);
    if (rank == 0) {
      all = std::move(one);
      continue;
    }
    const int before = static_cast<int>(all.instructions.size());
    for (Instruction& i : one.instructions) {
      for (int& w : i.waits) w += before;
      all.instructions.push_back(std::move(i));
    }
    all.resident[rank] = std::move(one.resident[rank]);
  }
  return all;
}

Program lower(const ModelSpec& spec, const Plan& plan, int rank, PlacementOptions options) {
  return lower(spec, placement_of(spec, plan, std::move(options)), rank);
}

Program lower_forward(const ModelSpec& spec, const Placement& placement) {
  TERN_CHECK(placement.shape.num_virtual_stages() == 1 && placement.mesh.devices() == 1,
             "lower_forward: several devices");
  const MicroBatchCosts costs(spec, placement);
  return Lowerer(spec, placement, costs, 0).forward_alone();
}

}  // namespace tern
