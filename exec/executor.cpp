#include "exec/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "base/error.h"
#include "exec/collective_parts.h"
#include "exec/early_updates.h"
#include "exec/executor_impl.h"
#include "exec/gathered_weights.h"
#include "exec/layer_sum.h"
#include "exec/link_check.h"
#include "exec/stage_messages.h"
#include "exec/summands.h"
#include "exec/sums_beside.h"
#include "exec/unit_buffers.h"
#include "kernels/cpu/vector.h"
#include "model/context_ranks.h"
#include "model/sum_gradients.h"
#include "model/tensor_parts.h"
#include "program/link_bytes.h"
#include "update/norm.h"
#include "update/stored_states.h"
#include "update/update_unit.h"

namespace tern {
namespace {

// y = x + y: the earlier groups' sum first.
void add_earlier(const Tensor& x, const Tensor& y) {
  if (y.dtype() == DType::f32) return add(std::span<const float>(x.span<float>()), y.span<float>());
  const std::span<const double> from = x.span<double>();
  const std::span<double> to = y.span<double>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = from[i] + to[i];
}

struct Runner {
  const Program& program;
  const ExecuteInput& in;
  UnitBuffers buffers;
  ExecuteResult result;
  bool training;
  // Of pipelines.
  StageMessages messages{program, in};
  std::vector<size_t> late{};  // REDUCEs that NORM begins with
  CollectiveParts collectives{program, in};
  LinkCheck links{program, in, collectives};
  Summands summands{in, collectives};
  GatheredWeights gathered{in, collectives};
  EarlyUpdates early{in, collectives, summands};
  int micro = -1;                       // whose `before` was called last
  SumsBeside sums{in.clock, in.world};  // the last member: its thread ends before what it uses

  Arena& arena() const { return in.compute.arena; }
  int64_t now(MemoryClass c) const { return arena().current()[static_cast<size_t>(c)]; }
  int last() const { return program.num_units - 1; }
  DType wide() const { return collectives.wide(); }
  static bool allocates(const Instruction& i, BufferKind kind) {
    return std::any_of(i.allocates.begin(), i.allocates.end(),
                       [&](const BufferBytes& b) { return b.buffer.kind == kind; });
  }

  // What keys dropout is the place of the micro-batch in the step.
  Compute compute_of(const MicroBatch& batch) const {
    Compute c = in.compute;
    if (c.dropout) c.dropout->first_row = batch.first_row, c.dropout->gap = batch.gap;
    return c;
  }

  void forward(const Instruction& i) {
    const MicroBatch& batch = in.micro_batches[i.micro];
    const size_t at = buffers.at(i.unit, i.micro);
    const Tensor x = i.unit > 0 ? buffers.output[at - 1] : Tensor();
    if (i.unit == last()) return head(batch, x, buffers.saved[at]);
    UnitSaved* saved = allocates(i, BufferKind::saved) ? &buffers.saved[at] : nullptr;
    const WeightLease weights = in.weights.acquire(i.unit);
    Tensor y = unit_forward(in.spec, i.unit, *weights, batch.rows, x, saved, nullptr, compute_of(batch));
    (i.op == Opcode::recompute ? buffers.remade : buffers.output[at]) = std::move(y);
  }

  void head(const MicroBatch& batch, const Tensor& x, UnitSaved& saved) {
    result.num_targets += batch.num_targets();
    if (training) {
      const WeightLease weights = in.weights.acquire(last());
      const double loss = head_forward_loss(in.spec, std::get<HeadWeights>(*weights), batch.rows, x, batch.targets,
                                            batch.loss_scale.value_or(in.loss_scale), std::get<HeadSaved>(saved),
                                            head_of(*in.gradients), in.compute);
      const bool says_it = !in.compute.tensor || in.compute.tensor->comm.rank() == 0;
      result.loss_sum += result.losses.emplace_back(says_it ? loss : 0);
      return;
    }
    double& own = result.losses.emplace_back(0);
    for (const double loss : head_losses(in.spec, in.weights, x, batch.targets, in.compute))
      result.loss_sum += loss, own += loss;
  }

  void backward_input(const Instruction& i) {
    const size_t at = buffers.at(i.unit, i.micro);
    const WeightLease weights = in.weights.acquire(i.unit);
    const MicroBatch& batch = in.micro_batches[i.micro];
    buffers.gradient[at - 1] = unit_backward_input(in.spec, i.unit, *weights, batch.rows, buffers.gradient[at],
                                                   buffers.saved[at], compute_of(batch));
  }

  void backward_weight(const Instruction& i) {
    const size_t at = buffers.at(i.unit, i.micro);
    const WeightLease weights = in.weights.acquire(i.unit);
    const MicroBatch& batch = in.micro_batches[i.micro];
    unit_backward_weight(in.spec, i.unit, *weights, batch.rows, buffers.gradient[at], buffers.saved[at],
                         in.gradients->units[i.unit], compute_of(batch));
  }

  bool has_loss() const { return in.step_targets.value_or(result.num_targets) > 0; }

  bool pipelined() const { return collectives.pipelined(); }

  void gather(const Instruction& i) {
    if (i.micro >= 0) return gathered.gather(i);
    const std::vector<size_t> places = collectives.parameters_of(i);
    collectives.group_of(i.axis).all_gather(
        collectives.parts_for(i.axis, places, at_places(in.update->weights, places)));
  }

  void sum_layer(const Instruction& i) {
    const LayerSum sum = layer_sum(i, in, collectives, summands);
    sum.exchange();
    for (const auto& [part, earlier] : sum.added) add_earlier(part, earlier);
  }

  // --- sums beside the compute ---

  // Nothing needs the sum of a layer's gradients before NORM, or before the JOIN of what it reads.
  bool goes_beside(const Instruction& i) const {
    const bool of_replicas = i.axis == MeshAxis::replicas || i.axis == MeshAxis::expert_replicas;
    const bool sums_up = i.op == Opcode::reduce || i.op == Opcode::scatter;
    return in.sums_beside && sums_up && i.resource == Resource::gradient_link && of_replicas && !pipelined();
  }
  void post_sum(size_t place) {
    const Instruction& i = program.instructions[place];
    sums.post(place, i.reads, [sum = layer_sum(i, in, collectives, summands)] {
      sum.exchange();
      sum.add();
    });
  }
  // Whether it may send or receive, which is for one thread at a time.
  bool talks(const Instruction& i) const {
    return in.compute.tensor || i.axis != MeshAxis::none || i.swapped_bytes > 0 || i.ring_bytes > 0 ||
           i.routed_bytes > 0 || i.op == Opcode::norm || i.op == Opcode::update;
  }
  // What has to have ended before the instruction begins.
  void await_sums(const Instruction& i) {
    if (!sums.any() || goes_beside(i)) return;
    record_sums(i.op == Opcode::join ? sums.wait_for(i.frees) : talks(i) ? sums.wait() : sums.ended());
  }
  void record_sums(const std::vector<SummedBeside>& list) {
    for (const SummedBeside& s : list) {
      links.compare(s.place, s.links, has_loss(), result);
      TraceEvent& e = result.trace[s.place];
      e.start_s = seconds_between(result.begin_ns, s.begin_ns), e.duration_s = seconds_between(s.begin_ns, s.end_ns);
    }
  }

  // --- calls on the way ---

  void call_before(const Instruction& i) {
    if (!in.calls) return;
    const auto call = [](const auto& function, auto... what) {
      if (function) function(what...);
    };
    const bool is_norm = i.op == Opcode::norm;
    const int next = is_norm ? program.num_micro : i.micro < 0 || i.op == Opcode::join ? micro : i.micro;
    TERN_CHECK(next == micro || next == micro + 1, "execute: micro-batch {} follows {}", next, micro);
    if (next > micro) {
      if (in.calls->before || in.calls->after) record_sums(sums.wait());
      if (micro >= 0) call(in.calls->after, static_cast<size_t>(micro));
      if (!is_norm) call(in.calls->before, static_cast<size_t>(next));
      micro = next;
    }
    if (is_norm) call(in.calls->between);
  }

  void merge(const Instruction& i) {
    std::vector<Tensor> gradients = at_places(in.update->gradients, collectives.parameters_of(i.unit));
    std::erase_if(gradients, [](const Tensor& g) { return g.empty(); });  // of experts that other ranks have
    for (auto b = i.reads.rbegin(); b != i.reads.rend(); ++b) {
      const std::vector<Tensor>& earlier = buffers.kept_sums.at({b->unit, b->micro});
      for (size_t p = 0; p < gradients.size(); ++p) add_earlier(earlier[p], gradients[p]);
    }
    if (i.allocates.empty()) return;
    std::vector<Tensor>& kept = buffers.kept_sums[{i.unit, i.micro}];
    for (const Tensor& g : gradients) {
      kept.push_back(arena().allocate(g.dtype(), g.shape(), MemoryClass::activations));
      std::memcpy(kept.back().data(), g.data(), static_cast<size_t>(g.bytes()));
      g.fill_zero();
    }
  }

  void reduce(const Instruction& i) {
    if (i.axis == MeshAxis::none) return join_tied_gradients(in.spec, *in.gradients);
    if (i.axis == MeshAxis::tables) return reduce_tables();
    if (i.axis == MeshAxis::all)
      return aggregate_gradients(*in.robust, in.update->gradients, in.update->step, *in.world);
    if (i.axis == MeshAxis::tensor || i.axis == MeshAxis::keys) return reduce_alike(i);
    sum_layer(i);
  }

  void reduce_alike(const Instruction& i) {
    std::vector<Tensor> alike;
    Instruction of = i;
    of.axis = MeshAxis::replicas;
    const std::vector<size_t> places = collectives.parameters_of(of);
    for (size_t k = 0; k < places.size(); ++k) {
      const size_t p = places[k];
      const Tensor& gradient = i.micro < 0 ? in.update->gradients[p] : summands.of(of)[k];
      const AlikeRows rows = alike_rows(in.spec, in.update->state.infos[p], in.compute.tensor->same_keys != nullptr);
      if (rows.by_all == (i.axis == MeshAxis::tensor) && rows.from < gradient.rows())
        alike.push_back(gradient.rows_view(rows.from, gradient.rows()));
    }
    collectives.group_of(i.axis).all_reduce_sum(alike);
  }

  // Every rank has the same sums of gradients, so each would refuse by itself; what one alone finds, by a fault of its machine,
  // must not part it from the others.
  void norm(const Instruction& i) {
    reduce_late();
    if (early.pass) {
      if (has_loss()) result.update = norm_of_squares(*in.update, early.squares);
      return;
    }
    const bool of_ranks = i.axis != MeshAxis::none;
    std::exception_ptr refusal;
    int64_t refused = 0;
    if (has_loss()) {
      try {
        result.update = gradient_norm(*in.update, in.world);
      } catch (const Error&) { refusal = std::current_exception(); }
      refused = refusal ? 1 : 0;
      if (of_ranks) in.world->all_reduce({&refused, 1}, Combine::most);
    }
    if (of_ranks) result.changed = in.world->transport().settle();
    if (result.changed) return;
    if (refusal) std::rethrow_exception(refusal);
    if (refused)
      throw Error(ErrorKind::diverged,
                  "step {}: another rank's gradients are not finite, this one's are; the update was refused",
                  in.update->step);
  }

  Tensor& place_of(const Buffer& b) {
    return (b.kind == BufferKind::gradient ? buffers.gradient : buffers.output)[buffers.at(b.unit, b.micro)];
  }
  void receive(const Instruction& i) {
    Tensor& place = place_of(i.allocates[0].buffer);
    place = messages.memory_for(i.allocates[0].buffer, arena());
    messages.receive(i, place);
  }

  // Sums of gradients over ranks, of pipelines: the two of a tied table first.
  void reduce_tables() {
    if (in.tables->size() == 1) return join_tied_gradients(in.spec, *in.gradients);  // head and embedding on one device
    const Tensor& own = in.update->gradients[0];  // whole, or (ZeRO 2, 3) this replica's part
    if (own.empty()) return;
    in.tables->all_reduce_sum({&own, 1});
    links.expected += all_reduce_bytes(own.count(), size_of(wide()), in.tables->rank(), in.tables->size());
  }
  void reduce_late() {
    // The Program has the REDUCE where the table's copy lies; the embedding's stage takes part in it.
    const auto is_of_tables = [&](size_t at) { return program.instructions[at].axis == MeshAxis::tables; };
    if (in.tables && in.spec.head().tied && std::ranges::none_of(late, is_of_tables)) reduce_tables();
    std::ranges::stable_partition(late, is_of_tables);
    for (const size_t at : late) {
      const Instruction& i = program.instructions[at];
      i.op == Opcode::scatter ? sum_layer(i) : reduce(i);
      if (!is_of_tables(at)) links.expected += links.predicted(i, has_loss());
    }
    late.clear();
  }
  void compare_all_links(size_t place) {
    in.world->barrier();
    in.world->transport().flush();
    links.expected += messages.expected;
    links.compare_all(place, result);
    messages.sent.clear();
    result.message_bytes = messages.memory.peak_total();
  }

  Comm* update_group() const { return in.replicas ? in.replicas : in.world; }

  void run_one(const Instruction& i) {
    switch (i.op) {
      case Opcode::send:
        return messages.send(i, place_of(i.reads[0]));
      case Opcode::recv:
        return receive(i);
      case Opcode::forward:
      case Opcode::recompute:
        return gathered.require_whole(i), forward(i);
      case Opcode::backward_input:
        return gathered.require_whole(i), backward_input(i);
      case Opcode::backward_weight:
        return gathered.require_whole(i), backward_weight(i);
      case Opcode::merge:
        return merge(i);
      case Opcode::reduce:
        return reduce(i);
      case Opcode::scatter:
        return sum_layer(i);
      case Opcode::join:
        return;  // what it waits for has ended
      case Opcode::gather:
        return gather(i);
      case Opcode::norm:
        return norm(i);
      case Opcode::update:
        if (std::ranges::any_of(i.reads, is_summand)) return early.update(i, has_loss());
        if (!result.update) return;
        if (collectives.holds_table_copy(i.unit, i.unit + 1)) {
          constexpr std::array<size_t, 1> kTable{0};
          update_parameters(*in.update, *result.update, kTable, in.compute.arena, update_group());
        }
        return update_unit(*in.update, *result.update, i.unit, in.compute.arena, update_group());
      default:
        TERN_CHECK(false, "execute: {}: require_executable let it pass", to_string(i));
    }
  }

  void free(const Instruction& i) {
    const auto frees = [&](Buffer b) { return std::find(i.frees.begin(), i.frees.end(), b) != i.frees.end(); };
    for (const Buffer& b : i.frees)
      if (is_summand(b))
        summands.end(b);
      else if (is_gathered(b))
        gathered.end(b);
      else
        buffers.free(b, in.spec.units[b.unit], frees({BufferKind::saved, b.unit, b.micro}));
  }

  void compare(size_t place, const InstructionBytes& counted, const InstructionBytes& predicted) {
    const auto differ = [&](int64_t c, int64_t p, const char* when) {
      if (c != p)
        result.mismatches.push_back({place, fmt::format("[{}] {}: {} bytes {}, the Program says {}", place,
                                                        to_string(program.instructions[place]), c, when, p)});
    };
    differ(counted.after, predicted.after, "alive after it");
    differ(counted.peak_buffers, predicted.peak_buffers, "in buffers at their most");
    // One list for all ranks: who keeps less of a unit than others needs less to update it.
    if (program.instructions[place].op != Opcode::update || counted.workspace > predicted.workspace ||
        !in.update->state.shares.any())
      differ(counted.workspace, predicted.workspace, "in temporaries at their most");
  }

  // Bytes of states that passed through memory so far: each is read and written back.
  int64_t stored_bytes_now() const {
    return in.update && in.update->stored ? 2 * in.update->stored->counts().used_bytes : 0;
  }
  void compare_stored(size_t place, int64_t before) {
    if (!in.update || !in.update->stored) return;
    const Instruction& i = program.instructions[place];
    const int64_t counted = stored_bytes_now() - before;
    const int64_t want = i.op == Opcode::update && has_loss() ? i.message_bytes : 0;
    if (counted != want)
      result.mismatches.push_back(
          {place, fmt::format("[{}] {}: {} bytes of states read and written, the Program says {}", place, to_string(i),
                              counted, want)});
  }

  // In stages, where messages of others may arrive at any time, all are compared at the end.
  void compare_links(size_t place, const LinkBytes& before) {
    if (collectives.num_ranks() == 1) return;
    const Instruction& i = program.instructions[place];
    if (!pipelined()) return links.compare(place, links.since(before), has_loss(), result);
    if (!is_late(i)) links.expected += links.predicted(i, has_loss());
  }

  // Sums over ranks that in stages are what NORM begins with: the embedding's table is whole at the end of the step alone.
  bool is_late(const Instruction& i) const {
    if (!pipelined() || i.micro >= 0 || i.axis == MeshAxis::tensor || i.axis == MeshAxis::keys) return false;
    return i.op == Opcode::reduce || i.op == Opcode::scatter;
  }

  void run() {
    std::vector<InstructionBytes> simulated;
    if (in.predicted.empty()) simulated = simulate(program).replay;
    const std::span<const InstructionBytes> predicted = in.predicted.empty() ? simulated : in.predicted;
    links.first = links.now();
    const int64_t before_run = now(MemoryClass::activations);
    const Clock& clock = in.clock;
    const int64_t start = result.begin_ns = clock.now_ns();
    for (size_t place = 0; place < program.instructions.size(); ++place) {
      const Instruction& i = program.instructions[place];
      await_sums(i);
      call_before(i);
      const bool alone = !sums.any();  // who else sends or receives has its bytes counted beside
      InstructionBytes b{.before = now(MemoryClass::activations) - before_run};
      const int64_t workspace_before = now(MemoryClass::workspace);
      const PeakScope scope(arena());
      const LinkBytes links_before = alone ? links.now() : LinkBytes{};
      const int64_t stored_before = stored_bytes_now();
      const int64_t begin = clock.now_ns();
      for (const BufferBytes& made : i.allocates)
        if (is_summand(made.buffer)) summands.begin(made);
      if (i.op == Opcode::backward_weight || i.op == Opcode::forward) summands.put_before(i);
      if (is_late(i))
        late.push_back(place);
      else if (goes_beside(i))
        post_sum(place);
      else
        run_one(i);
      if (result.changed) return;
      const int64_t end = clock.now_ns();
      const MemoryBytes peak = scope.peak().each;
      b.peak_buffers = peak[static_cast<size_t>(MemoryClass::activations)] - before_run;
      b.workspace = peak[static_cast<size_t>(MemoryClass::workspace)] - workspace_before;
      free(i);
      b.after = now(MemoryClass::activations) - before_run;
      compare(place, b, predicted[place]);
      if (alone && !sums.any()) compare_links(place, links_before);
      compare_stored(place, stored_before);
      record(place, b);
      result.trace.push_back(
          trace_event(i, seconds_between(start, begin), seconds_between(begin, end), b.peak_buffers, b.peak()));
    }
    record_sums(sums.wait());
    if (pipelined()) compare_all_links(program.instructions.size() - 1);
    result.seconds = seconds_between(start, clock.now_ns());
  }

  void record(size_t place, const InstructionBytes& b) {
    RankBytes& r = result.bytes;
    r.peak_buffers = std::max(r.peak_buffers, b.peak_buffers);
    r.peak_workspace = std::max(r.peak_workspace, b.workspace);
    if (b.peak() > r.peak_bytes) {
      r.peak_bytes = b.peak();
      r.buffers_at_peak = b.peak_buffers;
      r.workspace_at_peak = b.workspace;
      r.peak_place = place;
    }
    result.counted.push_back(b);
  }
};

}  // namespace

ExecuteResult execute(const Program& program, const ExecuteInput& in) {
  require_executable(program, in.world ? in.world->size() : 1);
  require_input(program, in);
  const bool training =
      std::ranges::any_of(program.instructions, [](const Instruction& i) { return i.op == Opcode::backward_weight; });
  Runner runner{program, in, UnitBuffers(in.spec, program), {}, training};
  runner.run();
#ifndef NDEBUG
  TERN_CHECK(runner.result.mismatches.empty(), "execute: {}", describe_mismatches(runner.result));
#endif
  return std::move(runner.result);
}

std::string describe_mismatches(const ExecuteResult& result) {
  if (result.mismatches.empty()) return "";
  return fmt::format("counted bytes differ from the Program at {} of {} instructions, first {}",
                     result.mismatches.size(), result.counted.size(), result.mismatches[0].what);
}

}  // namespace tern
