#include "infer/step_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "program/expert_rules.h"

namespace tern {

void StepRecorder::begin_step(const StepBatch& batch, bool only_single_tokens, const StepWeights& weights,
                              KvOnDisk* on_disk, Arena& arena) {
  if (!arena_) {
    weights_ = weights, on_disk_ = on_disk, arena_ = &arena;
    if (weights_.ring) weights_.ring->record(true);
    if (on_disk_) on_disk_->record(true);
  }
  scope_.reset();
  if (weights_.ring) weights_.ring->take_leases();  // of a step that was forgotten
  if (std::exchange(open_, true) && weights_.experts.cache) steps_.clear(), expert_reads_.clear();
  counts_ = only_single_tokens || !settings_.only_single_tokens;
  wanted_ = counts_ && seen_ >= settings_.first;
  step_ = {.batch = batch, .begin_ns = clock_.now_ns()};
  before_ = now(MemoryClass::activations);
  if (ExtentCache* cache = weights_.experts.cache) {
    if (wanted_ && steps_.empty()) experts_ = cache->settled_decisions();
    cache->record(wanted_);
    cache->take_events(), cache->take_reads(), cache->take_leases();
  }
}

void StepRecorder::begin_unit(int unit) {
  if (!wanted_) return;
  step_.units.push_back({.unit = unit, .begin_ns = clock_.now_ns()});
  step_.units.back().bytes.before = now(MemoryClass::activations) - before_;
  workspace_ = now(MemoryClass::workspace);
  scope_.emplace(*arena_);
}

void StepRecorder::end_unit(int64_t given_bytes) {
  if (!wanted_) return;
  RecordedUnit& unit = step_.units.back();
  unit.end_ns = clock_.now_ns();
  const MemoryBytes peak = scope_->peak().each;
  scope_.reset();
  unit.bytes.peak_buffers = peak[static_cast<size_t>(MemoryClass::activations)] - before_;
  unit.bytes.workspace = peak[static_cast<size_t>(MemoryClass::workspace)] - workspace_;
  unit.bytes.after = now(MemoryClass::activations) - before_ - given_bytes;
}

void StepRecorder::end_step() {
  step_.end_ns = clock_.now_ns();
  open_ = false;
  if (ExtentCache* cache = weights_.experts.cache; cache && wanted_) {
    cache->record(false);
    step_.routing = cache->take_events(), step_.expert_leases = cache->take_leases();
    const std::vector<RingRead> reads = cache->take_reads();
    expert_reads_.insert(expert_reads_.end(), reads.begin(), reads.end());
  }
  if (weights_.ring) {
    step_.leases = weights_.ring->take_leases();
    const std::vector<RingRead> reads = weights_.ring->take_reads();
    reads_.insert(reads_.end(), reads.begin(), reads.end());
    // Of a step that is not recorded only reads ahead are of use.
    if (!wanted_ && !step_.leases.empty())
      std::erase_if(reads_, [last = step_.leases.back().turn](const RingRead& read) { return read.turn <= last; });
  }
  if (on_disk_) {
    step_.keys_pass = on_disk_->counts().passes - 1;
    step_.batch.moved.assign(on_disk_->step_moves().begin(), on_disk_->step_moves().end());
    const std::vector<ImageMove> moves = on_disk_->take_moves();
    if (wanted_) moves_.insert(moves_.end(), moves.begin(), moves.end());
  }
  seen_ += counts_;
  if (wanted_) steps_.push_back(std::exchange(step_, {}));
  wanted_ = false;
  if (!complete()) return;
  if (weights_.ring) weights_.ring->record(false);
  if (on_disk_) on_disk_->record(false);
}

namespace {

// With the experts that the decisions give for the recorded routing.
std::vector<StepBatch> batches_of(const ModelSpec& spec, const StepExperts& experts, const StepRecorder& recorder) {
  std::vector<StepBatch> batches;
  std::optional<CacheDecisions> decisions = recorder.experts();
  for (const RecordedStep& step : recorder.steps()) {
    batches.push_back(step.batch);
    if (decisions) batches.back().experts = expert_uses(spec, experts, step.routing, *decisions);
  }
  return batches;
}
std::vector<ExpertMatrix> there_before(const StepExperts& experts, const StepRecorder& recorder) {
  return recorder.experts() ? experts_there(experts, *recorder.experts()) : std::vector<ExpertMatrix>{};
}

// Puts the records of the recorder beside the instructions of their Program.
class RecordReader {
 public:
  RecordReader(const ModelSpec& spec, const StepRecorder& recorder, const KvPool& pool)
      : spec_(spec), recorder_(recorder), origin_ns_(recorder.steps().empty() ? 0 : recorder.steps().front().begin_ns) {
    const StepExperts& experts = recorder.weights().experts;
    out_.program = step_program(spec, recorder.weights(), batches_of(spec, experts, recorder), &pool,
                                there_before(experts, recorder));
    for (const RingRead& read : recorder.reads()) reads_.emplace(ReadKey{false, read.turn}, read);
    for (const RingRead& read : recorder.expert_reads()) reads_.emplace(ReadKey{true, read.turn}, read);
    for (const ImageMove& m : recorder.moves()) moves_.emplace(MoveKey{m.pass, m.image, m.write}, m);
    pair_leases();
    for (const RecordedStep& step : recorder.steps()) {
      unit_of_.emplace_back(spec.units.size(), nullptr);
      for (const RecordedUnit& unit : step.units) unit_of_.back()[static_cast<size_t>(unit.unit)] = &unit;
    }
    for (const Unit& unit : spec.units) layers_.push_back(kv_layer_of(unit));
  }

  RecordedSteps read() {
    const std::vector<InstructionBytes> replay = simulate(out_.program).replay;
    for (size_t place = 0; place < out_.program.instructions.size(); ++place) {
      const Instruction& i = out_.program.instructions[place];
      if (i.op == Opcode::forward)
        forward(place, i, replay[place]);
      else
        move(place, i, replay[place]);
    }
    if (missing_ > 0) out_.notes.push_back(fmt::format("{} extents were read before the recording began", missing_));
    for (const auto& [key, read] : reads_)
      if (key.first && !listed_.contains(key.second))
        out_.mismatches.push_back(
            fmt::format("{}: {} bytes read, the Program says 0", to_string(expert_at(read.place)), read.bytes));
    return std::move(out_);
  }

 private:
  using MoveKey = std::tuple<int64_t, int, bool>;  // pass, image, write
  using ReadKey = std::pair<bool, int64_t>;        // of an expert, turn

  Buffer expert_at(int item) const {
    const ExpertMatrix& m = recorder_.weights().experts.items[static_cast<size_t>(item)];
    return {.kind = BufferKind::expert, .unit = m.unit, .micro = 0, .part = m.number};
  }

  const RecordedStep& step_of(const Instruction& i) const { return recorder_.steps()[static_cast<size_t>(i.micro)]; }
  const RecordedUnit& unit_of(const Instruction& i) const {
    const RecordedUnit* unit = unit_of_[static_cast<size_t>(i.micro)][static_cast<size_t>(i.unit)];
    TERN_CHECK(unit, "recorded_steps: {} is not recorded", to_string(i));
    return *unit;
  }

  // The leases of a step come in the order of its parts with extents, those of experts in the order of its parts with experts.
  void pair_leases() {
    pair_leases(&RecordedStep::leases, streams);
    pair_leases(&RecordedStep::expert_leases, uses_expert);
  }
  void pair_leases(std::vector<RingLease> RecordedStep::*of, bool (*takes_one)(const Instruction&)) {
    std::vector<size_t> next(recorder_.steps().size(), 0);
    for (const Instruction& i : out_.program.instructions) {
      if (i.op != Opcode::forward || !takes_one(i)) continue;
      const std::vector<RingLease>& leases = step_of(i).*of;
      size_t& at = next[static_cast<size_t>(i.micro)];
      TERN_CHECK(at < leases.size(), "recorded_steps: {} has no lease; the step has {}", to_string(i), leases.size());
      leases_.emplace(std::tuple{i.micro, i.unit, i.part}, leases[at++]);
    }
    for (size_t m = 0; m < next.size(); ++m)
      TERN_CHECK(next[m] == (recorder_.steps()[m].*of).size(), "recorded_steps: step {} has {} leases, its list {}", m,
                 (recorder_.steps()[m].*of).size(), next[m]);
  }
  static bool streams(const Instruction& i) {
    return std::ranges::count(i.reads, BufferKind::extent, &Buffer::kind) > 0;
  }
  bool reads_experts(const Instruction& i) const {
    return std::ranges::count(recorder_.weights().experts.items, i.unit, &ExpertMatrix::unit) > 0;
  }
  // When the unit's router had answered, if experts are read then.
  std::optional<int64_t> routed_ns(const Instruction& i) const {
    for (const ExtentCache::Event& event : step_of(i).routing)
      if (!event.list.empty() && expert_at(event.list.front()).unit == i.unit) return event.at_ns;
    return std::nullopt;
  }
  const RingLease* lease_of(const Instruction& i, int part) const {
    const auto it = leases_.find({i.micro, i.unit, part});
    return it == leases_.end() ? nullptr : &it->second;
  }

  void add(const Instruction& i, int64_t begin_ns, int64_t end_ns, const InstructionBytes& b, int64_t moved) {
    TraceEvent event = trace_event(i, seconds_between(origin_ns_, begin_ns), seconds_between(begin_ns, end_ns),
                                   b.peak_buffers, b.peak());
    event.message_bytes = std::max<int64_t>(moved, 0);
    out_.events.push_back(std::move(event));
    out_.bytes.push_back(b);
    out_.moved.push_back(moved);
  }
  void compare(size_t place, int64_t counted, int64_t predicted, const char* what) {
    if (counted == predicted) return;
    out_.mismatches.push_back(fmt::format("[{}] {}: {} bytes {}, the Program says {}", place,
                                          to_string(out_.program.instructions[place]), counted, what, predicted));
  }

  void forward(size_t place, const Instruction& i, const InstructionBytes& predicted) {
    const RecordedUnit& unit = unit_of(i);
    const std::vector<Instruction>& list = out_.program.instructions;
    const auto is_of_unit = [&](const Instruction& o) {
      return o.op == Opcode::forward && o.micro == i.micro && o.unit == i.unit;
    };
    const auto behind = std::find_if(list.begin() + static_cast<ptrdiff_t>(place) + 1, list.end(),
                                     [](const Instruction& o) { return o.op == Opcode::forward; });
    const bool last = behind == list.end() || !is_of_unit(*behind);
    const RingLease *own = lease_of(i, i.part), *next = last ? nullptr : lease_of(i, i.part + 1);
    const bool routes = recorder_.weights().units[static_cast<size_t>(i.unit)].router_part == i.part;
    const std::optional<int64_t> routed = routes && !last ? routed_ns(i) : std::nullopt;
    const int64_t begin_ns = own ? own->begin_ns : i.part > 0 ? part_end_ns_ : unit.begin_ns;
    const int64_t end_ns = routed ? *routed : next ? next->asked_ns : own && !last ? own->end_ns : unit.end_ns;
    part_end_ns_ = own && !next ? own->end_ns : end_ns;
    InstructionBytes b = unit.bytes;
    if (i.part > 0) b.before = predicted.before;  // between parts nothing was counted
    if (!last) b.after = predicted.after;
    if (i.part == 0) compare(place, b.before, predicted.before, "alive before it");
    if (last) compare(place, b.after, predicted.after, "alive after it");
    compare(place, b.peak_buffers, predicted.peak_buffers, "in buffers at their most");
    // Of several tokens an expert's rows are not known: the list has a bound.
    const bool below = reads_experts(i) && step_of(i).batch.tokens > 1 && b.workspace < predicted.workspace;
    if (!below) compare(place, b.workspace, predicted.workspace, "in temporaries at their most");
    add(i, begin_ns, end_ns, b, -1);
  }

  void move(size_t place, const Instruction& i, const InstructionBytes& alive) {
    if (i.part > 0) return read_of_part(place, i, alive);
    const RecordedStep& step = step_of(i);
    const std::vector<int>& layers = step.batch.layers_on_disk;
    const auto image =
        static_cast<int>(std::ranges::find(layers, layers_[static_cast<size_t>(i.unit)]) - layers.begin());
    const auto it = moves_.find({step.keys_pass, image, i.op == Opcode::store});
    const int64_t moved = it == moves_.end() ? 0 : it->second.bytes;
    compare(place, moved, i.message_bytes, "moved");
    if (it != moves_.end()) return add(i, it->second.begin_ns, it->second.end_ns, alive, moved);
    const int64_t at = i.op == Opcode::load ? step.begin_ns : unit_of(i).end_ns;
    add(i, at, at, alive, moved);
  }

  // Of the extent or the expert that a part uses.
  void read_of_part(size_t place, const Instruction& i, const InstructionBytes& alive) {
    const bool of_expert = is_expert(i.allocates[0].buffer);
    const int64_t turn = lease_of(i, i.part)->turn;
    const auto it = reads_.find({of_expert, turn});
    if (it == reads_.end()) {
      if (of_expert)
        compare(place, 0, i.message_bytes, "read");
      else
        ++missing_;
      return add(i, step_of(i).begin_ns, step_of(i).begin_ns, alive, of_expert ? 0 : -1);
    }
    if (of_expert) listed_.insert(turn);
    if (of_expert && expert_at(it->second.place) != i.allocates[0].buffer)
      out_.mismatches.push_back(
          fmt::format("[{}] {}: read was {}", place, to_string(i), to_string(expert_at(it->second.place))));
    compare(place, it->second.bytes, i.message_bytes, "read");
    add(i, it->second.begin_ns, it->second.end_ns, alive, it->second.bytes);
  }

  const ModelSpec& spec_;
  const StepRecorder& recorder_;
  int64_t origin_ns_;
  RecordedSteps out_;
  std::map<ReadKey, RingRead> reads_;
  std::set<int64_t> listed_;  // turns of experts' reads
  int64_t part_end_ns_ = 0;   // of the part before
  std::map<MoveKey, ImageMove> moves_;
  std::map<std::tuple<int, int, int>, RingLease> leases_;  // by (micro, unit, part)
  std::vector<std::vector<const RecordedUnit*>> unit_of_;  // of each step, of each unit
  std::vector<int> layers_;                                // of each unit, whose keys it reads
  int64_t missing_ = 0;
};

}  // namespace

RecordedSteps recorded_steps(const ModelSpec& spec, const StepRecorder& recorder, const KvPool& pool) {
  return RecordReader(spec, recorder, pool).read();
}

std::vector<TraceEvent> predicted_steps(const ModelSpec& spec, const StreamPlan& plan, const StreamRates& rates,
                                        const StepRecorder& recorder, const KvPool& pool) {
  const StepWeights weights = step_weights(spec, recorder.weights().dtype, plan);
  const std::vector<StepBatch> recorded = batches_of(spec, weights.experts, recorder);
  if (recorded.empty()) return {};
  int64_t extents = 0;
  for (const InferenceUnit& unit : weights.units)
    extents += std::ranges::count_if(unit.parts, [](int64_t bytes) { return bytes > 0; });
  // As in steady_pass_ps (store/pass_time.h): the ring has as many slots as what it remembers of steps before; two more let it settle.
  const int fill = static_cast<int>(weights.slots / std::max<int64_t>(extents, 1)) + 2;
  std::vector<StepBatch> batches(static_cast<size_t>(fill), recorded.front());
  for (StepBatch& batch : batches)
    batch.experts = expected_expert_uses(spec, plan, batch.tokens, plan.experts.even_share());
  batches.insert(batches.end(), recorded.begin(), recorded.end());
  const Program program = step_program(spec, weights, batches, &pool, there_before(weights.experts, recorder));
  const Simulation simulation = simulate(program, step_times(program, spec, plan, rates));
  std::vector<TraceEvent> events;
  double begin_s = 0;
  for (TraceEvent& e : trace_of(program, simulation)) {
    if (e.micro < fill) continue;
    if (e.micro == fill && e.unit == 0 && e.op == Opcode::forward) begin_s = e.start_s;
    events.push_back(std::move(e));
  }
  size_t at = 0;
  for (Instruction i : program.instructions) {
    if (i.micro < fill) continue;
    i.micro -= fill;
    for (std::vector<Buffer>* list : {&i.reads, &i.frees})
      for (Buffer& b : *list) b.micro -= b.kind == BufferKind::expert ? 0 : fill;
    for (BufferBytes& b : i.allocates) b.buffer.micro -= b.buffer.kind == BufferKind::expert ? 0 : fill;
    TraceEvent& e = events[at++];
    e.name = to_string(i), e.micro = i.micro, e.start_s -= begin_s;
  }
  return events;
}

void begin_at_zero(std::vector<TraceEvent>& one, std::vector<TraceEvent>& other) {
  double first = 0;
  for (const std::vector<TraceEvent>* events : {&one, &other})
    for (const TraceEvent& e : *events) first = std::min(first, e.start_s);
  for (std::vector<TraceEvent>* events : {&one, &other})
    for (TraceEvent& e : *events) e.start_s -= first;
}

}  // namespace tern
