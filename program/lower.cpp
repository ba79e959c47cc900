#include "program/lower.h"

#include <algorithm>

namespace tern {
namespace {

// An assignment with its instance: what the lowering and the stage times ask.
struct Chosen {
  const Instance& in;
  const Assignment& a;
  PipelineShape shape{in.schedule, in.num_stages, in.chunks_per_stage, in.num_micro};
  bool split = splits_backward(in.schedule);
  std::vector<StageRange> ranges = stage_ranges(in, a);

  const CostVector& cost(int u) const { return in.cost[u][a.strategy[u]]; }
  const EdgeCost& edge(const std::vector<std::vector<EdgeCost>>& edges, int u) const {
    return edges[u][a.strategy[u] * in.cost[u + 1].size() + a.strategy[u + 1]];
  }
  const EdgeCost& within(int u) const { return edge(in.within, u); }                            // between u and u + 1
  const EdgeCost& behind(int s) const { return edge(links_behind(in, s), ranges[s].end - 1); }  // the link
};

struct Lowerer {
  const Chosen& c;
  Program program;
  int rank = 0, stage = 0, micro = 0;      // of the operation being lowered
  std::vector<Instruction> compute, host;  // its instructions
  // Of the rank: places of the last instruction on each clock, −1 before there is one.
  int last_compute = -1, last_host = -1, last_scatter = -1;

  int emit(Instruction i) {
    i.rank = rank;
    program.instructions.push_back(std::move(i));
    return static_cast<int>(program.instructions.size()) - 1;
  }
  Instruction step(Opcode op, int u, int64_t ps) const {
    return {.op = op, .unit = u, .micro = micro, .stage = stage, .picoseconds = ps};
  }
  void add(Opcode op, int u, int64_t ps) { compute.push_back(step(op, u, ps)); }
  void add_if(Opcode op, int u, int64_t ps) {
    if (ps > 0) add(op, u, ps);
  }
  void work(Opcode op, int u, int64_t ps) {
    add(op, u, ps);
    compute.back().workspace_bytes = c.cost(u).transient;
  }
  // What a unit keeps of a micro-batch off the device: STORE brings it there beside the forward, LOAD fetches it back
  // and ends it beside the backward. Without such bytes the host link's time is a LOAD (of parameters).
  std::vector<BufferBytes> off_device(int u) const {
    std::vector<BufferBytes> list;
    for (const Tier tier : {Tier::host, Tier::disk})
      if (const int64_t bytes = c.cost(u).held[static_cast<size_t>(tier)]; bytes > 0)
        list.push_back({{BufferKind::held, u, micro, tier}, bytes});
    return list;
  }
  void host_work(Phase phase, int u, int64_t ps) {
    const std::vector<BufferBytes> kept = off_device(u);
    if (ps == 0 && kept.empty()) return;
    const bool stores = phase == Phase::forward && !kept.empty();
    Instruction i = step(stores ? Opcode::store : Opcode::load, u, ps);
    i.resource = Resource::host_link;
    if (stores) i.allocates = kept;
    if (phase == Phase::backward)
      for (const BufferBytes& b : kept) i.frees.push_back(b.buffer);
    i.reads = i.frees;
    host.push_back(std::move(i));
  }

  // The device blocks in which a stage holds a micro-batch, by the operation that brings them (forward or backward).
  std::vector<BufferBytes> blocks(Phase phase) const {
    int64_t held = 0, held_weight = 0;
    for (int u = c.ranges[stage].begin; u < c.ranges[stage].end; ++u) {
      held += c.cost(u).held[0];
      if (c.split) held_weight += c.cost(u).held_weight;
    }
    const int64_t kept = std::min(held, held_weight);
    std::vector<BufferBytes> list;
    const auto add_block = [&](BufferKind kind, int64_t bytes) {
      if (bytes > 0) list.push_back({{kind, c.ranges[stage].begin, micro}, bytes});
    };
    if (phase == Phase::forward) {
      add_block(BufferKind::held, held - kept);
      add_block(BufferKind::kept, kept);
    } else {
      add_block(BufferKind::left, held_weight - kept);
    }
    return list;
  }
  static void free_if(Instruction& i, const std::vector<BufferBytes>& list, bool (*gone)(BufferKind)) {
    for (const BufferBytes& b : list)
      if (gone(b.buffer.kind)) i.frees.push_back(b.buffer);
  }

  // Gives the operation's first instructions what they wait for and emits all.
  void issue(const Buffer* input, int from) {
    int arrival = -1;
    if (from >= 0 && from != rank)
      arrival = emit({.op = Opcode::recv,
                      .unit = input->unit,
                      .micro = micro,
                      .resource = Resource::link,
                      .allocates = {{*input, 0}},
                      .stage = stage,
                      .peer = from});
    if (last_host >= 0) compute.front().waits.push_back(last_host);
    if (!host.empty() && last_compute >= 0) host.front().waits.push_back(last_compute);
    if (!host.empty() && arrival >= 0) host.front().waits.push_back(arrival);
    if (input && compute.front().reads.empty()) compute.front().reads.push_back(*input);
    for (Instruction& i : compute) {
      const bool scatters = i.op == Opcode::backward_weight && i.micro + 1 == c.shape.num_micro;
      const int u = i.unit;
      last_compute = emit(std::move(i));
      if (scatters) scatter(u);
    }
    for (Instruction& i : host) last_host = emit(std::move(i));
    if (host.empty()) last_host = -1;  // the compute alone says when this operation ends
    compute.clear();
    host.clear();
  }
  void scatter(int u) {
    const int64_t ps = c.cost(u).sync;
    if (ps == 0) return;
    Instruction i = step(Opcode::scatter, u, ps);
    i.micro = -1;
    i.resource = Resource::gradient_link;
    i.waits = {last_compute};
    last_scatter = emit(std::move(i));
  }
  void send(const Buffer& message, int to, int64_t ps) {
    if (to == rank) return;
    Instruction i = step(Opcode::send, message.unit, ps);
    i.resource = Resource::link;
    i.peer = to;
    i.reads = i.frees = {message};
    i.waits = {last_compute};
    if (last_host >= 0) i.waits.push_back(last_host);
    emit(std::move(i));
  }

  void forward() {
    const auto [a, e] = c.ranges[stage];
    add_if(Opcode::gather, a, c.cost(a).entry_forward);
    for (int u = a; u < e; ++u) {
      work(Opcode::forward, u, c.cost(u).forward);
      if (u + 1 < e) add_if(Opcode::reshard, u, c.within(u).forward);
      host_work(Phase::forward, u, c.cost(u).host_forward);
    }
    compute.front().allocates = blocks(Phase::forward);
    const Buffer x{BufferKind::output, a - 1, micro}, y{BufferKind::output, e - 1, micro};
    if (stage > 0)
      for (Instruction& i : compute)
        if (i.op == Opcode::forward && i.unit == a) i.reads = i.frees = {x};
    if (stage + 1 < c.shape.num_stages()) compute.back().allocates.push_back({y, 0});
    issue(stage > 0 ? &x : nullptr, stage > 0 ? device_of(c.shape, stage - 1) : -1);
    if (stage + 1 < c.shape.num_stages()) send(y, device_of(c.shape, stage + 1), c.behind(stage).forward);
  }

  void backward() {
    const auto [a, e] = c.ranges[stage];
    const bool last_stage = stage + 1 == c.shape.num_stages();
    const Buffer dy{BufferKind::gradient, e - 1, micro}, dx{BufferKind::gradient, a - 1, micro};
    add_if(Opcode::gather, e - 1, c.cost(e - 1).entry_backward);
    for (int u = e - 1; u >= a; --u) {
      const CostVector& x = c.cost(u);
      if (u + 1 < e) add_if(Opcode::reshard, u, c.within(u).backward);
      if (x.recompute > 0) work(Opcode::recompute, u, x.recompute);
      work(Opcode::backward_input, u, x.backward);
      if (u == e - 1 && !last_stage) compute.back().reads = compute.back().frees = {dy};
      if (u == a && stage > 0) compute.back().allocates.push_back({dx, 0});
      if (!c.split) work(Opcode::backward_weight, u, x.weight);
      host_work(Phase::backward, u, x.host_backward);
    }
    const std::vector<BufferBytes> held = blocks(Phase::forward), left = blocks(Phase::backward);
    compute.front().allocates.insert(compute.front().allocates.end(), left.begin(), left.end());
    free_if(compute.back(), held, [](BufferKind k) { return k == BufferKind::held; });
    issue(last_stage ? nullptr : &dy, last_stage ? -1 : device_of(c.shape, stage + 1));
    if (stage > 0) send(dx, device_of(c.shape, stage - 1), c.behind(stage - 1).backward);
  }

  void weight() {
    const auto [a, e] = c.ranges[stage];
    for (int u = e - 1; u >= a; --u) work(Opcode::backward_weight, u, c.cost(u).weight);
    free_if(compute.back(), blocks(Phase::forward), [](BufferKind k) { return k == BufferKind::kept; });
    free_if(compute.back(), blocks(Phase::backward), [](BufferKind k) { return k == BufferKind::left; });
    issue(nullptr, -1);
  }

  void lower_rank(const std::vector<PipelineOp>& ops) {
    last_compute = last_host = last_scatter = -1;
    int64_t update = 0;
    for (int s = 0; s < c.shape.num_stages(); ++s) {
      if (device_of(c.shape, s) != rank) continue;
      for (int u = c.ranges[s].begin; u < c.ranges[s].end; ++u) {
        update += c.cost(u).update;
        for (int tier = 0; tier < kTiers; ++tier)
          if (const int64_t bytes = c.cost(u).persistent[tier]; bytes > 0)
            program.resident[rank].push_back({{BufferKind::persistent, u, -1, static_cast<Tier>(tier)}, bytes});
        if (c.cost(u).begin == 0) continue;
        stage = s;
        micro = -1;
        last_compute = emit(step(Opcode::gather, u, c.cost(u).begin));
      }
    }
    for (const PipelineOp& op : ops) {
      stage = op.stage;
      micro = op.micro;
      op.phase == Phase::forward ? forward() : op.phase == Phase::backward ? backward() : weight();
    }
    Instruction last{.op = Opcode::update, .unit = -1, .micro = -1, .stage = stage, .picoseconds = update};
    for (const int place : {last_host, last_scatter})
      if (place >= 0) last.waits.push_back(place);
    emit(std::move(last));
  }
};

}  // namespace

Program lower(const Instance& in, const Assignment& a) {
  const Chosen chosen{in, a};
  const PipelineOrder order = pipeline_order(chosen.shape, stage_times(in, a));
  Lowerer l{chosen, {.num_ranks = in.num_stages, .num_units = in.num_layers(), .num_micro = in.num_micro}};
  l.program.resident.resize(in.num_stages);
  for (l.rank = 0; l.rank < in.num_stages; ++l.rank) l.lower_rank(order[l.rank]);
  return std::move(l.program);
}

}  // namespace tern
