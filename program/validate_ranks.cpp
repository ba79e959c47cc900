#include "program/validate_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "program/dependencies.h"

namespace tern {
namespace {

using Key = std::tuple<int, BufferKind, int, int, Tier>;  // rank and buffer

struct Life {
  bool alive = false;
  std::vector<int> readers;  // places, of this life
};

struct Checker {
  const Program& program;
  std::vector<std::string> faults;
  std::map<Key, Life> lives;
  std::map<std::tuple<Opcode, int, int>, int> at;  // (op, unit, micro) -> place
  std::vector<int> rank_of_unit = std::vector<int>(std::max(program.num_units, 0), -1);
  std::vector<int> last_place = std::vector<int>(std::max(program.num_ranks, 0), -1), update_at = last_place,
                   scatter_at = last_place;
  int place = 0;

  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults.push_back(fmt::format("[{}] {}: {}", place, to_string(program.instructions[place]),
                                 fmt::format(format, std::forward<Args>(args)...)));
  }
  static Key key(int rank, const Buffer& b) { return {rank, b.kind, b.unit, b.micro, b.tier}; }
  bool is_message(Opcode op) const { return op == Opcode::send || op == Opcode::recv; }

  bool fields(const Instruction& i) {
    const size_t before = faults.size();
    const bool once = i.op == Opcode::update || i.op == Opcode::gather || i.op == Opcode::scatter;
    if (i.rank < 0 || i.rank >= program.num_ranks) fault("rank {} of {}", i.rank, program.num_ranks);
    if (i.op == Opcode::update ? i.unit != -1 : i.unit < 0 || i.unit >= program.num_units)
      fault("unit {} of {}", i.unit, program.num_units);
    if (i.micro < (once ? -1 : 0) || i.micro >= program.num_micro)
      fault("micro-batch {} of {}", i.micro, program.num_micro);
    if (is_message(i.op) && (i.peer < 0 || i.peer >= program.num_ranks || i.peer == i.rank))
      fault("peer {} of {} ranks", i.peer, program.num_ranks);
    if (i.op == Opcode::send && i.reads.size() != 1) fault("sends {} buffers, expected one", i.reads.size());
    if (i.op == Opcode::recv && i.allocates.size() != 1) fault("receives {} buffers, expected one", i.allocates.size());
    if (i.picoseconds < 0 || i.workspace_bytes < 0) fault("a negative cost");
    for (const BufferBytes& b : i.allocates)
      if (b.bytes < 0) fault("{} has {} bytes", to_string(b.buffer), b.bytes);
    return faults.size() == before;
  }

  // On the same resource and earlier, or waited for by name: certainly ended before.
  bool certainly_before(int first, const Instruction& i) const {
    const Instruction& f = program.instructions[first];
    return first == place || (f.resource == i.resource && f.peer == i.peer && f.op != Opcode::recv) ||
           std::find(i.waits.begin(), i.waits.end(), first) != i.waits.end();
  }

  void buffers(const Instruction& i) {
    for (const Buffer& b : i.reads) {
      Life& life = lives[key(i.rank, b)];
      if (!life.alive) fault("reads {}, which is not alive", to_string(b));
      life.readers.push_back(place);
    }
    for (const auto& [b, bytes] : i.allocates) {
      Life& life = lives[key(i.rank, b)];
      if (life.alive) fault("allocates {}, which is alive", to_string(b));
      life = {.alive = true, .readers = {}};
    }
    for (const Buffer& b : i.frees) {
      Life& life = lives[key(i.rank, b)];
      if (!life.alive) fault("frees {}, which is not alive", to_string(b));
      for (const int reader : life.readers)
        if (!certainly_before(reader, i)) fault("frees {}, which [{}] may still read", to_string(b), reader);
      life = {};
    }
  }

  int place_of(Opcode op, int unit, int micro) const {
    const auto it = at.find({op, unit, micro});
    return it == at.end() ? -1 : it->second;
  }
  void after(Opcode op, int unit, int micro) {
    if (place_of(op, unit, micro) < 0) fault("comes before {} unit {} micro {}", name_of(op), unit, micro);
  }
  // The neighbour ran before on this rank, or its result is read from a message.
  void after_or_reads(Opcode op, int neighbour, Buffer result, const Instruction& i) {
    if (rank_of_unit[neighbour] == i.rank) return after(op, neighbour, i.micro);
    if (std::find(i.reads.begin(), i.reads.end(), result) == i.reads.end())
      fault("does not read {}, and its maker is on another rank", to_string(result));
  }

  void order(const Instruction& i) {
    const int u = i.unit, m = i.micro;
    switch (i.op) {
      case Opcode::forward:
        if (u > 0) after_or_reads(Opcode::forward, u - 1, {BufferKind::output, u - 1, m}, i);
        break;
      case Opcode::recompute:
        after(Opcode::forward, u, m);
        if (place_of(Opcode::backward_input, u, m) >= 0) fault("comes after its BACKWARD_INPUT");
        break;
      case Opcode::backward_input:
        after(Opcode::forward, u, m);
        if (u + 1 < program.num_units) after_or_reads(Opcode::backward_input, u + 1, {BufferKind::gradient, u, m}, i);
        break;
      case Opcode::backward_weight:
        after(Opcode::backward_input, u, m);
        if (m > 0) after(Opcode::backward_weight, u, m - 1);
        break;
      case Opcode::scatter:
        scatter(i);
        return;
      case Opcode::update:
        update(i);
        return;
      default:
        return;
    }
    if (const int first = place_of(i.op, u, m); first >= 0) fault("a second time; first at [{}]", first);
    at.emplace(std::tuple{i.op, u, m}, place);
  }

  void scatter(const Instruction& i) {
    const int last = place_of(Opcode::backward_weight, i.unit, program.num_micro - 1);
    if (last < 0 || std::find(i.waits.begin(), i.waits.end(), last) == i.waits.end())
      fault("does not wait for BACKWARD_WEIGHT unit {} micro {}", i.unit, program.num_micro - 1);
    scatter_at[i.rank] = place;
  }

  void update(const Instruction& i) {
    if (update_at[i.rank] >= 0) fault("a second time; first at [{}]", update_at[i.rank]);
    update_at[i.rank] = place;
    if (last_place[i.rank] != place) fault("is not the last instruction of rank {}", i.rank);
    const int scatter = scatter_at[i.rank];
    if (scatter >= 0 && std::find(i.waits.begin(), i.waits.end(), scatter) == i.waits.end())
      fault("does not wait for the last SCATTER of rank {}, [{}]", i.rank, scatter);
  }

  void find_ranks() {
    for (place = 0; place < static_cast<int>(program.instructions.size()); ++place) {
      const Instruction& i = program.instructions[place];
      if (!fields(i)) continue;
      last_place[i.rank] = place;
      if (i.op != Opcode::forward && i.op != Opcode::backward_input && i.op != Opcode::backward_weight) continue;
      if (rank_of_unit[i.unit] < 0) rank_of_unit[i.unit] = i.rank;
      if (rank_of_unit[i.unit] != i.rank) fault("on rank {}; the unit began on rank {}", i.rank, rank_of_unit[i.unit]);
    }
  }

  void whole() {
    for (int m = 0; m < program.num_micro; ++m)
      for (int u = 0; u < program.num_units; ++u)
        for (const Opcode op : {Opcode::forward, Opcode::backward_input, Opcode::backward_weight})
          if (place_of(op, u, m) < 0) faults.push_back(fmt::format("no {} unit {} micro {}", name_of(op), u, m));
    for (int rank = 0; rank < program.num_ranks; ++rank)
      if (update_at[rank] < 0) faults.push_back(fmt::format("no UPDATE on rank {}", rank));
    for (const auto& [k, life] : lives)
      if (life.alive && std::get<1>(k) != BufferKind::persistent)
        faults.push_back(fmt::format("{} is still alive at the end (rank {})",
                                     to_string(Buffer{std::get<1>(k), std::get<2>(k), std::get<3>(k), std::get<4>(k)}),
                                     std::get<0>(k)));
  }

  void run() {
    if (program.num_ranks < 1 || program.num_units < 1 || program.num_micro < 1 ||
        (!program.resident.empty() && static_cast<int>(program.resident.size()) != program.num_ranks)) {
      faults.push_back(
          fmt::format("{} ranks, {} units, {} micro-batches, resident buffers of {} ranks: expected at "
                      "least 1 each, and as many ranks or none",
                      program.num_ranks, program.num_units, program.num_micro, program.resident.size()));
      return;
    }
    find_ranks();
    if (!faults.empty()) return;  // the rest counts on them
    for (int rank = 0; rank < static_cast<int>(program.resident.size()); ++rank)
      for (const BufferBytes& b : program.resident[rank]) lives[key(rank, b.buffer)].alive = true;
    for (place = 0; place < static_cast<int>(program.instructions.size()); ++place) {
      const Instruction& i = program.instructions[place];
      buffers(i);
      order(i);
    }
    whole();
    const Dependencies d = dependencies_of(program);
    faults.insert(faults.end(), d.faults.begin(), d.faults.end());
    if (d.order.size() < program.instructions.size()) faults.push_back("deadlock: " + describe_deadlock(program, d));
  }
};

}  // namespace

std::vector<std::string> validate_ranks(const Program& program) {
  Checker checker{program, {}, {}, {}};
  checker.run();
  return std::move(checker.faults);
}

}  // namespace tern
