#include "program/inference_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "program/dependencies.h"
#include "program/expert_rules.h"

namespace tern {
namespace {

// What was loaded and lies in a slot, or lay there.
struct Loaded {
  Buffer buffer;
  int read_at = -1, freed_at = -1;  // places; −1: not yet
};
// One ring's LOADs, in list order.
struct RingOfLoads {
  BufferKind kind;
  int64_t slots = 0;
  std::vector<Loaded> loads{};
  std::map<BufferKey, size_t> first{};  // LOAD of each buffer

  Loaded* find(const Buffer& b) {
    const auto it = first.find(buffer_key(0, b));
    return it == first.end() ? nullptr : &loads[it->second];
  }
  void add(const Buffer& b) {
    first.try_emplace(buffer_key(0, b), loads.size());
    loads.push_back({b});
  }
};

struct InferenceChecker {
  const Program& program;
  std::vector<std::string> faults{};
  RingOfLoads extents{BufferKind::extent}, keys{BufferKind::keys};
  std::map<std::pair<int, int>, int> last_part{};  // (unit, micro) -> place of its last part so far
  std::map<int, int> parts{};                      // of a unit: the number of its last part that uses no expert
  int before_experts = -1;                         // the last FORWARD so far that uses none
  std::vector<int> last_of_step = std::vector<int>(static_cast<size_t>(program.num_micro), -1);  // FORWARD so far
  int place = 0, before = -1;  // before: the FORWARD before

  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults.push_back(fmt::format("[{}] {}: {}", place, to_string(program.instructions[static_cast<size_t>(place)]),
                                 fmt::format(format, std::forward<Args>(args)...)));
  }
  const Instruction& at(int k) const { return program.instructions[static_cast<size_t>(k)]; }
  // Certainly ended before `i` begins: one resource does one thing after the other.
  bool awaits(const Instruction& i, int k) const {
    return at(k).resource == i.resource ||
           std::ranges::any_of(i.waits, [&](int w) { return k <= w && w < place && at(w).resource == at(k).resource; });
  }

  void forward(const Instruction& i) {
    follow(i);
    before = place;
    if (!uses_expert(i)) before_experts = place;
    last_part[{i.unit, i.micro}] = place;
    last_of_step[static_cast<size_t>(i.micro)] = place;
    for (const Buffer& b : i.reads) {
      if (b.kind == BufferKind::extent) read_extent(i, b);
      if (b.kind == BufferKind::keys) read_keys(i, b);
    }
  }

  // In the order of steps, units and parts.
  void follow(const Instruction& i) {
    if (before < 0) {
      if (i.unit != 0 || i.micro != 0 || i.part != 0) fault("is the first FORWARD");
      return;
    }
    const Instruction& b = at(before);
    const bool next_part = i.micro == b.micro && i.unit == b.unit && i.part == b.part + 1;
    const bool next_unit = i.micro == b.micro && i.unit == b.unit + 1 && i.part == 0;
    const bool next_step = i.micro == b.micro + 1 && i.unit == 0 && i.part == 0;
    if (!next_part && !next_unit && !next_step) return fault("follows [{}] {}", before, to_string(b));
    if (!next_part && before_experts >= 0) end_unit(at(before_experts));
  }
  void end_unit(const Instruction& b) {
    const auto [it, fresh] = parts.try_emplace(b.unit, b.part);
    if (!fresh && it->second != b.part)
      fault("ends unit {} behind part {}, in an earlier step behind part {}", b.unit, b.part, it->second);
  }

  void read_extent(const Instruction& i, const Buffer& b) {
    if (b.unit != i.unit || b.micro != i.micro || b.part != i.part) fault("reads {}, which is another's", to_string(b));
    if (std::ranges::count(i.frees, b) == 0) fault("does not free {}", to_string(b));
    if (Loaded* loaded = extents.find(b)) loaded->read_at = loaded->freed_at = place;
  }
  void read_keys(const Instruction& i, const Buffer& b) {
    if (b.unit != i.unit || b.micro != i.micro || i.part != 0) fault("reads {}, which is another's", to_string(b));
    if (Loaded* loaded = keys.find(b)) loaded->read_at = place;
  }

  void load(const Instruction& i) {
    if (i.allocates.size() != 1) return fault("brings {} buffers, expected one", i.allocates.size());
    const Buffer& b = i.allocates[0].buffer;
    if (is_expert(b)) return;
    if (b.kind != BufferKind::extent && b.kind != BufferKind::keys) return fault("brings {}", to_string(b));
    if (b.unit != i.unit || b.micro != i.micro || b.part != i.part)
      fault("brings {}, which is another's", to_string(b));
    RingOfLoads& ring = b.kind == BufferKind::extent ? extents : keys;
    if (b.kind == BufferKind::keys && i.micro > 0 && is_first_of_step(i))
      begin_after(i, last_of_step[static_cast<size_t>(i.micro) - 1]);
    const int64_t turn = std::ssize(ring.loads) - ring.slots;
    if (turn >= 0) {
      const Loaded* earlier = ring.slots > 0 ? &ring.loads[static_cast<size_t>(turn)] : nullptr;
      if (!earlier || earlier->freed_at < 0)
        fault("has no slot: {}", earlier ? to_string(earlier->buffer) + " lies there" : "there are none");
      else if (!awaits(i, earlier->freed_at))
        fault("does not wait for [{}], which frees its slot", earlier->freed_at);
    }
    ring.add(b);
  }
  // Later ones follow it on the disk.
  bool is_first_of_step(const Instruction& i) const {
    return keys.loads.empty() || keys.loads.back().buffer.micro != i.micro;
  }
  void begin_after(const Instruction& i, int forward) {
    if (forward < 0 || !awaits(i, forward)) fault("does not wait for the end of the step before");
  }

  void store(const Instruction& i) {
    const bool of_keys = i.reads.size() == 1 && i.reads == i.frees && i.reads[0].kind == BufferKind::keys;
    if (!of_keys) return fault("does not end the keys of one layer");
    const Buffer& b = i.reads[0];
    if (b.unit != i.unit || b.micro != i.micro) fault("ends {}, which is another's", to_string(b));
    Loaded* loaded = keys.find(b);
    if (!loaded) return;
    if (loaded->read_at < 0) fault("no FORWARD read {}", to_string(b));
    const auto it = last_part.find({i.unit, i.micro});
    if (it == last_part.end() || !awaits(i, it->second)) fault("does not wait for the unit's FORWARD");
    loaded->freed_at = place;
  }

  void run() {
    if (program.num_ranks != 1) faults.push_back(fmt::format("{} ranks: inference is of one", program.num_ranks));
    for (const std::vector<BufferBytes>& list : program.resident)
      for (const BufferBytes& b : list)
        if (b.buffer.kind == BufferKind::extent_slot)
          ++extents.slots;
        else if (b.buffer.kind == BufferKind::keys_slot)
          ++keys.slots;
    for (; place < static_cast<int>(program.instructions.size()); ++place) {
      const Instruction& i = at(place);
      switch (i.op) {
        case Opcode::forward:
          if (stored(i)) fault("comes after the STORE of its keys");
          forward(i);
          break;
        case Opcode::load:
          load(i);
          break;
        case Opcode::store:
          store(i);
          break;
        default:
          fault("in a program of inference");
      }
    }
    place = before;
    if (before_experts >= 0) end_unit(at(before_experts));
  }

  bool stored(const Instruction& i) {
    const Loaded* loaded = keys.find({BufferKind::keys, i.unit, i.micro});
    return loaded && loaded->freed_at >= 0;
  }
};

}  // namespace

std::vector<std::string> faults_of_inference(const Program& program) {
  InferenceChecker checker{program};
  checker.run();
  return std::move(checker.faults);
}

}  // namespace tern
