#include "program/spread_head.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "base/wide_type.h"
#include "program/lower.h"

namespace tern {
namespace {

enum class SpreadPass : uint8_t { forward, s, backward, t };

struct SpreadOp {  // a pass of a device on a micro-batch
  SpreadPass pass;
  int micro;
};

// FLOPs of one micro-batch: of each device's layers, and of one part of the head.
struct RoundWork {
  std::vector<int64_t> forward, backward;
  int64_t part = 0;
};

std::vector<SpreadOp> order_of_device(const RoundWork& work, int device, int num_micro) {
  const auto devices = static_cast<int>(work.forward.size());
  int64_t round = 0, forwards_behind = 0;
  for (int d = 0; d < devices; ++d) {
    const auto at = static_cast<size_t>(d);
    round = std::max(round, work.forward[at] + work.backward[at] + work.part);
    if (d > device) forwards_behind += work.forward[at];
  }
  const int s_after = static_cast<int>(ceil_div(forwards_behind, round)), backward_after = devices - device;
  std::vector<SpreadOp> ops;
  const auto add = [&](SpreadPass pass, int micro) {
    if (0 <= micro && micro < num_micro) ops.push_back({pass, micro});
  };
  for (int r = 0; r < num_micro + backward_after; ++r) {
    add(SpreadPass::forward, r);
    add(SpreadPass::s, r - s_after);
    add(SpreadPass::backward, r - backward_after);
    add(SpreadPass::t, r - s_after - 1);
  }
  return ops;
}

std::string why_not(const ModelSpec& spec, const Placement& at) {
  const auto* head = std::get_if<HeadSpec>(&spec.units.back().spec);
  if (!head) return "the model ends in no head";
  if (head->tied) return "the head's matrix is the embedding's table, which lies on the first device";
  if (spec.units.back().frozen) return "the head is frozen";
  if (at.shape.schedule != PipelineSchedule::one_f_one_b || at.shape.chunks_per_device != 1)
    return "the schedule is not 1f1b with one stage on each device";
  if (at.shape.num_devices < 2) return "there is one device";
  if (at.mesh.devices() != 1) return "a stage has several ranks";
  if (at.groups != 1 || at.aggregate_values || at.updates_in_backward) return "gradients are not summed plainly";
  for (const PlacedLayer& l : at.layers)
    if (l.strategy.zero != 0 || l.strategy.activations != Tier::device)
      return "a layer has ZeRO or activations off the device";
  return "";
}

int64_t fraction(int64_t total, int64_t part, int64_t all) {
  return static_cast<int64_t>(static_cast<__int128>(total) * part / all);
}

// What one micro-batch's head takes, and who of its parts has how much.
class HeadShares {
 public:
  HeadShares(const HeadSpec& head, const UnitCost& cost, int parts)
      : vocab_(head.vocab), width_(head.width), parameters_(cost.parameters), parts_(parts) {}

  int64_t rows(int part) const { return begin(part + 1) - begin(part); }
  int64_t product_elements(int part) const { return rows(part) * width_; }
  int64_t product_elements() const { return vocab_ * width_; }
  // Of an amount of the product alone; the parts' amounts add up to it.
  int64_t of_part(int64_t amount, int part) const {
    return fraction(amount, begin(part + 1), vocab_) - fraction(amount, begin(part), vocab_);
  }
  // Of an amount that goes by parameters, norm and product together.
  int64_t norm_of(int64_t amount) const { return fraction(amount, parameters_ - product_elements(), parameters_); }
  int64_t part_of_all(int64_t amount, int part) const { return of_part(amount - norm_of(amount), part); }

 private:
  int64_t begin(int part) const { return std::min(vocab_, part * ceil_div(vocab_, parts_)); }
  int64_t vocab_, width_, parameters_, parts_;
};

// A message under way beside the compute.
struct Sent {
  int place;
  Buffer buffer;
};
enum Stream : uint8_t { kOutputs, kGradients, kPartials, kFactors, kNumStreams };

// Writes the list of one device after the other, from the passes of the plain Program.
class HeadSpreader {
 public:
  HeadSpreader(const ModelSpec& spec, const Placement& at)
      : at_(at),
        plain_(lower(spec, at)),
        devices_(at.shape.num_devices),
        head_(plain_.num_units - 1),
        shares_(spec.head(), unit_cost(spec.units.back(), at.query(head_, 0)), devices_) {
    first_.assign(static_cast<size_t>(devices_) + 1, plain_.num_units);
    for (auto l = at.layers.rbegin(); l != at.layers.rend(); ++l)
      first_[static_cast<size_t>(l->stage)] = l->layer.first;
    for (const Instruction& i : plain_.instructions) sort_in(i);
  }

  Program spread() {
    Program all{.num_ranks = devices_,
                .num_units = plain_.num_units + devices_,
                .num_micro = plain_.num_micro,
                .instructions = {},
                .resident = resident(),
                .head_parts = devices_};
    const RoundWork work = work_of_a_round();
    for (device_ = 0; device_ < devices_; ++device_) {
      for (const SpreadOp& op : order_of_device(work, device_, plain_.num_micro)) {
        micro_ = op.micro;
        run(op.pass);
      }
      end_of_step();
      const auto before = static_cast<int>(all.instructions.size());
      for (Instruction& i : list_) {
        for (int& w : i.waits) w += before;
        all.instructions.push_back(std::move(i));
      }
      list_.clear();
    }
    return all;
  }

 private:
  // --- the plain Program ---

  using PassKey = std::tuple<int, Phase, int>;  // device, pass, micro-batch

  void sort_in(const Instruction& i) {
    if (i.resource != Resource::compute || i.op == Opcode::join) return;
    for (const BufferBytes& b : i.allocates) bytes_[{b.buffer.kind, b.buffer.unit, b.buffer.micro}] = b.bytes;
    if (i.micro < 0) return ends_[i.rank].push_back(&i);
    passes_[{i.rank, i.op == Opcode::forward ? Phase::forward : Phase::backward, i.micro}].push_back(&i);
    if (i.unit == head_ && i.op == Opcode::forward) heads_.push_back(&i);  // in the order of micro-batches
  }
  int64_t bytes_of(const Buffer& b) const { return bytes_.at({b.kind, b.unit, b.micro}); }
  const Instruction& head() const { return *heads_[static_cast<size_t>(micro_)]; }

  RoundWork work_of_a_round() const {
    RoundWork work{.forward = {}, .backward = {}, .part = std::max<int64_t>(ceil_div(heads_[0]->flops, devices_), 1)};
    const auto flops = [&](int device, Phase phase) {
      int64_t sum = 1;
      for (const Instruction* i : passes_.at({device, phase, 0})) sum += i->unit == head_ ? 0 : i->flops;
      return sum;
    };
    for (int d = 0; d < devices_; ++d) {
      work.forward.push_back(flops(d, Phase::forward));
      work.backward.push_back(flops(d, Phase::backward));
    }
    return work;
  }

  std::vector<std::vector<BufferBytes>> resident() const {
    std::vector<std::vector<BufferBytes>> lists = plain_.resident;
    std::vector<BufferBytes> of_head;
    for (BufferBytes& b : lists.back()) {
      if (b.buffer.unit != head_) continue;
      of_head.push_back(b);
      b.bytes = shares_.norm_of(b.bytes);
    }
    for (int d = 0; d < devices_; ++d)
      for (const BufferBytes& b : of_head)
        lists[static_cast<size_t>(d)].push_back(
            {{b.buffer.kind, part_unit(d), -1, b.buffer.tier}, shares_.part_of_all(b.bytes, d)});
    return lists;
  }

  // --- units and buffers ---

  int last_device() const { return devices_ - 1; }
  bool is_last() const { return device_ == last_device(); }
  int part_unit(int device) const { return head_ + 1 + device; }
  int first_unit() const { return first_[static_cast<size_t>(device_)]; }
  int end_unit() const { return first_[static_cast<size_t>(device_) + 1]; }
  Buffer output(int unit) const { return {BufferKind::output, unit, micro_}; }
  Buffer saved(int unit) const { return {BufferKind::saved, unit, micro_}; }
  Buffer gradient(int unit) const { return {BufferKind::gradient, unit, micro_}; }

  int64_t rows_bytes() const { return bytes_of(output(head_ - 1)); }  // of the head's input, (T, D)
  int64_t tokens() const { return at_.query(head_, micro_).tokens; }
  int64_t partial_bytes() const {
    return 2 * rows_bytes() + tokens() * kNumbersOfARow * static_cast<int64_t>(sizeof(double));
  }
  int64_t factor_bytes() const { return tokens() * static_cast<int64_t>(sizeof(double)); }
  int64_t softmax_bytes() const {
    const DType dtype = at_.query(head_, micro_).dtype;
    return tokens() * (shares_.rows(device_) * size_of(dtype) + size_of(wide_type(dtype)));
  }

  // --- issue ---

  int emit(Instruction i) {
    i.rank = i.stage = device_;
    list_.push_back(std::move(i));
    return static_cast<int>(list_.size()) - 1;
  }
  // On the compute clock: the first of a pass waits for what the pass received.
  void compute(Instruction i) {
    i.waits.insert(i.waits.end(), arrivals_.begin(), arrivals_.end());
    arrivals_.clear();
    last_compute_ = emit(std::move(i));
  }
  void compute_as_before(const Instruction& plain) {
    Instruction i = plain;
    i.waits.clear();
    compute(std::move(i));
  }
  void receive(const Buffer& b, int64_t bytes, int from) {
    arrivals_.push_back(emit({.op = Opcode::recv,
                              .unit = b.unit,
                              .micro = b.micro,
                              .resource = Resource::link,
                              .allocates = {{b, bytes}},
                              .peer = from,
                              .message_bytes = bytes}));
  }
  int send(const Buffer& b, int64_t bytes, int to) {
    return emit({.op = Opcode::send,
                 .unit = b.unit,
                 .micro = b.micro,
                 .resource = Resource::link,
                 .reads = {b},
                 .peer = to,
                 .message_bytes = bytes,
                 .waits = {last_compute_}});
  }
  // The message's buffer ends with its JOIN.
  void send_away(Stream stream, const Buffer& b, int64_t bytes, int to) {
    under_way_[stream].push_back({send(b, bytes, to), b});
  }
  // Leaves `room` messages under way.
  void join(Stream stream, int room) {
    for (auto& sent = under_way_[stream]; std::ssize(sent) > room; sent.pop_front()) {
      const Sent& oldest = sent.front();
      compute({.op = Opcode::join,
               .unit = oldest.buffer.unit,
               .micro = oldest.buffer.micro,
               .frees = {oldest.buffer},
               .waits = {oldest.place}});
    }
  }

  // --- passes ---

  void run(SpreadPass pass) {
    switch (pass) {
      case SpreadPass::forward:
        return forward();
      case SpreadPass::s:
        return part_forward();
      case SpreadPass::backward:
        return backward();
      case SpreadPass::t:
        return part_weight();
    }
  }

  void forward() {
    join(kOutputs, 1);
    if (device_ > 0) receive(output(first_unit() - 1), bytes_of(output(first_unit() - 1)), device_ - 1);
    for (const Instruction* i : passes_.at({device_, Phase::forward, micro_}))
      i->unit == head_ ? norm_rows(*i) : compute_as_before(*i);
    if (!is_last()) return send_away(kOutputs, output(end_unit() - 1), bytes_of(output(end_unit() - 1)), device_ + 1);
    for (int d = 0; d < last_device(); ++d) rows_sent_[micro_].push_back(send(output(head_), rows_bytes(), d));
  }
  // The head's FORWARD was norm, product and loss. Its saved buffer held the norm's statistics and the gradient of the normed rows.
  void norm_rows(const Instruction& plain) {
    compute({.op = Opcode::forward,
             .unit = head_,
             .micro = micro_,
             .reads = plain.reads,
             .allocates = {{output(head_), rows_bytes()}, {saved(head_), bytes_of(saved(head_)) - rows_bytes()}},
             .bytes_moved = 2 * rows_bytes()});
  }

  void part_forward() {
    join(kPartials, 1);
    if (!is_last()) receive(output(head_), rows_bytes(), last_device());
    const int unit = part_unit(device_);
    const int64_t flops = shares_.of_part(head().flops, device_),
                  moved = shares_.of_part(head().bytes_moved - 2 * rows_bytes(), device_);
    compute({.op = Opcode::forward,
             .unit = unit,
             .micro = micro_,
             .reads = {output(head_)},
             .allocates = {{output(unit), partial_bytes()}, {saved(unit), softmax_bytes()}},
             .workspace_bytes = shares_.of_part(head().workspace_bytes, device_),
             .flops = flops - flops / 3,
             .bytes_moved = moved - moved / 3});
    if (!is_last()) send_away(kPartials, output(unit), partial_bytes(), last_device());
  }

  void backward() {
    join(kGradients, 1);
    if (is_last())
      join_parts();
    else
      receive(gradient(end_unit() - 1), bytes_of(gradient(end_unit() - 1)), device_ + 1);
    for (const Instruction* plain : passes_.at({device_, Phase::backward, micro_})) {
      Instruction i = *plain;
      if (i.unit == head_) {
        i.reads.push_back(gradient(head_));
        if (i.op == Opcode::backward_weight) i.frees.push_back(gradient(head_));
      }
      compute_as_before(i);
    }
    if (device_ > 0)
      send_away(kGradients, gradient(first_unit() - 1), bytes_of(gradient(first_unit() - 1)), device_ - 1);
  }
  void join_parts() {
    join(kFactors, last_device());
    Instruction i{.op = Opcode::backward_input, .unit = part_unit(last_device()), .micro = micro_};
    i.allocates = {{gradient(head_), rows_bytes()}};
    for (int d = 0; d < devices_; ++d) {
      const int unit = part_unit(d);
      if (d < last_device()) receive(output(unit), partial_bytes(), d);
      i.reads.push_back(output(unit));
      i.allocates.push_back({gradient(unit), factor_bytes()});
    }
    i.frees = i.reads;
    i.bytes_moved = (2 * devices_ + 1) * rows_bytes();
    compute(std::move(i));
    for (int d = 0; d < last_device(); ++d) send_away(kFactors, gradient(part_unit(d)), factor_bytes(), d);
  }

  void part_weight() {
    const int unit = part_unit(device_);
    if (!is_last()) receive(gradient(unit), factor_bytes(), last_device());
    Instruction i{.op = Opcode::backward_weight, .unit = unit, .micro = micro_};
    i.reads = i.frees = {output(head_), saved(unit), gradient(unit)};
    i.workspace_bytes = shares_.of_part(head().workspace_bytes, device_);
    i.flops = shares_.of_part(head().flops, device_) / 3;
    i.bytes_moved = shares_.of_part(head().bytes_moved - 2 * rows_bytes(), device_) / 3;
    if (is_last()) i.waits = rows_sent_.at(micro_);  // the messages that read output(head_)
    compute(std::move(i));
  }

  void end_of_step() {
    for (int stream = 0; stream < kNumStreams; ++stream) join(static_cast<Stream>(stream), 0);
    const int64_t wide = size_of(wide_type(at_.query(head_, 0).dtype));
    const Instruction* of_head = ends_.at(last_device()).back();  // UPDATE of the head
    const auto update = [&](int unit, auto&& amount) {
      Instruction i = *of_head;
      i.unit = unit;
      i.flops = amount(i.flops), i.bytes_moved = amount(i.bytes_moved), i.workspace_bytes = amount(i.workspace_bytes);
      compute_as_before(i);
    };
    for (const Instruction* plain : ends_.at(device_)) {
      Instruction i = *plain;
      if (i.op == Opcode::norm) {
        const int64_t elements = shares_.product_elements(device_) - (is_last() ? shares_.product_elements() : 0);
        i.flops += 2 * elements, i.bytes_moved += elements * wide;
      }
      if (plain == of_head)
        update(head_, [&](int64_t all) { return shares_.norm_of(all); });
      else
        compute_as_before(i);
    }
    update(part_unit(device_), [&](int64_t all) { return shares_.part_of_all(all, device_); });
  }

  const Placement& at_;
  Program plain_;
  int devices_, head_;  // head_: its unit
  HeadShares shares_;
  std::vector<int> first_;  // unit of each device; the last entry is the end
  std::map<std::tuple<BufferKind, int, int>, int64_t> bytes_;
  std::map<PassKey, std::vector<const Instruction*>> passes_;  // of the plain Program, on the compute
  std::map<int, std::vector<const Instruction*>> ends_;        // of a device: NORM and UPDATEs
  std::vector<const Instruction*> heads_;                      // FORWARDs of the head
  // Of the device whose list is being written
  int device_ = 0, micro_ = 0, last_compute_ = -1;
  std::vector<Instruction> list_;
  std::vector<int> arrivals_;
  std::array<std::deque<Sent>, kNumStreams> under_way_;
  std::map<int, std::vector<int>> rows_sent_;  // of a micro-batch: the places of the SENDs of the normed rows
};

}  // namespace

Program spread_head(const ModelSpec& spec, const Placement& placement) {
  if (const std::string why = why_not(spec, placement); !why.empty())
    throw Error(ErrorKind::usage,
                "the head cannot be spread over the devices of the pipeline: {}; leave it on the last", why);
  return HeadSpreader(spec, placement).spread();
}

}  // namespace tern
