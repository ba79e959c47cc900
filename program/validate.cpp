#include "program/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "program/dependencies.h"
#include "program/expert_rules.h"
#include "program/inference_rules.h"
#include "program/routed_rows.h"

namespace tern {
namespace {

struct Life {
  bool alive = false;
  std::vector<int> readers;  // places, of this life
};

bool is_message(Opcode op) { return op == Opcode::send || op == Opcode::recv; }
// Exactly once for a unit and a micro-batch, on the unit's rank.
bool is_unit_work(Opcode op) {
  return op == Opcode::forward || op == Opcode::backward_input || op == Opcode::backward_weight ||
         op == Opcode::recompute || op == Opcode::update || op == Opcode::merge;
}

bool is_resident(BufferKind kind) {
  switch (kind) {
    case BufferKind::persistent:
    case BufferKind::extent_slot:
    case BufferKind::keys_slot:
    case BufferKind::weights:
    case BufferKind::pages:
    case BufferKind::expert:
    case BufferKind::expert_slot:
      return true;
    default:
      return false;
  }
}

Buffer buffer_of(const BufferKey& k) {
  return {std::get<1>(k), std::get<2>(k), std::get<3>(k), std::get<4>(k), std::get<5>(k)};
}

struct Checker {
  const Program& program;
  ProgramKind program_kind;
  std::vector<std::string> faults{};
  std::map<BufferKey, Life> lives{};                      // present: was born once
  std::map<std::tuple<Opcode, int, int, int>, int> at{};  // (op, unit, micro, part) -> place
  std::vector<int> rank_of_unit = std::vector<int>(std::max(program.num_units, 0), -1);
  std::vector<int> norm_at = std::vector<int>(std::max(program.num_ranks, 0), -1), reduce_at = norm_at;
  int place = 0;

  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults.push_back(fmt::format("[{}] {}: {}", place, to_string(program.instructions[place]),
                                 fmt::format(format, std::forward<Args>(args)...)));
  }

  bool training() const { return program_kind == ProgramKind::training; }
  int last() const { return program.num_units - 1; }
  // Of a spread head (program/spread_head.h) its norm, behind which its parts stand.
  int head() const { return last() - program.head_parts; }
  bool is_part(int unit) const { return unit > head(); }
  int input_of(int unit) const { return is_part(unit) ? head() : unit - 1; }
  int place_of(Opcode op, int unit, int micro) const {
    const auto it = at.find({op, unit, micro, 0});
    return it == at.end() ? -1 : it->second;
  }

  bool fields(const Instruction& i) {
    const size_t before = faults.size();
    const bool norm = i.op == Opcode::norm, message = is_message(i.op);
    const bool once =
        norm || i.op == Opcode::update || i.op == Opcode::reduce || i.op == Opcode::gather || i.op == Opcode::scatter;
    if (i.rank < 0 || i.rank >= program.num_ranks) fault("rank {} of {}", i.rank, program.num_ranks);
    if (norm ? i.unit != -1 : i.unit < 0 || i.unit >= program.num_units)
      fault("unit {} of {}", i.unit, program.num_units);
    if (i.micro < (once ? -1 : 0) || i.micro >= program.num_micro)
      fault("micro-batch {} of {}", i.micro, program.num_micro);
    if (message && (i.peer < 0 || i.peer >= program.num_ranks || i.peer == i.rank))
      fault("peer {} of {} ranks", i.peer, program.num_ranks);
    if (i.op == Opcode::send && i.reads.size() != 1) fault("sends {} buffers, expected one", i.reads.size());
    if (i.op == Opcode::recv && i.allocates.size() != 1) fault("receives {} buffers, expected one", i.allocates.size());
    if (i.workspace_bytes < 0 || i.flops < 0 || i.bytes_moved < 0 || i.message_bytes < 0 || i.exchanged_bytes < 0 ||
        i.swapped_bytes < 0 || i.ring_bytes < 0 || i.routed_bytes < 0 || i.told_bytes < 0 || i.part < 0)
      fault("a negative cost");
    for (const BufferBytes& b : i.allocates)
      if (b.bytes < 0) fault("{} has {} bytes", to_string(b.buffer), b.bytes);
    return faults.size() == before;
  }

  void twice(const std::vector<Buffer>& list, const char* verb) {
    for (size_t a = 0; a < list.size(); ++a)
      if (std::count(list.begin(), list.begin() + a, list[a]) > 0) fault("{} {} twice", verb, to_string(list[a]));
  }

  // On the same resource and earlier, or waited for by name: certainly ended before. An expert has readers in many steps: there what comes
  // behind the reader, on its resource, may be waited for in its place.
  bool certainly_before(int first, const Instruction& i, const Buffer& freed) const {
    const Instruction& f = program.instructions[first];
    const auto ended = [&](int w) {
      const bool behind = freed.kind == BufferKind::expert && first < w && w < place;
      return w == first || (behind && program.instructions[w].resource == f.resource);
    };
    return first == place || (f.resource == i.resource && f.peer == i.peer && f.op != Opcode::recv) ||
           std::ranges::any_of(i.waits, ended);
  }

  void buffers(const Instruction& i) {
    std::vector<Buffer> born;
    for (const BufferBytes& b : i.allocates) born.push_back(b.buffer);
    twice(i.reads, "reads");
    twice(born, "allocates");
    twice(i.frees, "frees");
    for (const Buffer& b : i.reads) {
      Life& life = lives[buffer_key(i.rank, b)];
      if (!life.alive) fault("reads {}, which is not alive", to_string(b));
      life.readers.push_back(place);
    }
    for (const Buffer& b : born) {
      const auto [it, fresh] = lives.try_emplace(buffer_key(i.rank, b));
      if (it->second.alive)
        fault("allocates {}, which is alive", to_string(b));
      else if (!fresh && i.op != Opcode::gather && i.op != Opcode::load)
        fault("allocates {} a second time", to_string(b));
      it->second = {.alive = true, .readers = {}};
    }
    for (const Buffer& b : i.frees) {
      Life& life = lives[buffer_key(i.rank, b)];
      if (!life.alive) fault("frees {}, which is not alive", to_string(b));
      for (const int reader : life.readers)
        if (!certainly_before(reader, i, b)) fault("frees {}, which [{}] may still read", to_string(b), reader);
      life = {};
    }
  }

  void need(const Instruction& i, const Buffer& b) {
    if (std::find(i.reads.begin(), i.reads.end(), b) == i.reads.end()) fault("does not read {}", to_string(b));
  }
  void needs(const Instruction& i, std::initializer_list<BufferKind> own) {
    if (i.unit > 0) need(i, {BufferKind::output, input_of(i.unit), i.micro});
    for (const BufferKind kind : own) {
      if (kind == BufferKind::gradient && i.unit == last() && program.head_parts == 0) continue;
      if (kind != BufferKind::gradient && i.unit == 0) continue;
      need(i, {kind, i.unit, i.micro});
    }
  }

  void after(Opcode op, int unit, int micro) {
    if (place_of(op, unit, micro) < 0) fault("comes before {} unit {} micro {}", name_of(op), unit, micro);
  }
  // On another rank the neighbour's result comes as a message, which `needs` and `buffers` check.
  void after_neighbour(Opcode op, int neighbour, const Instruction& i) {
    if (rank_of_unit[neighbour] == i.rank) after(op, neighbour, i.micro);
  }

  void order(const Instruction& i) {
    const int u = i.unit, m = i.micro;
    if (norm_at[i.rank] >= 0 && i.op != Opcode::update) fault("comes after NORM");
    if (is_unit_work(i.op)) {
      const auto [first, fresh] = at.try_emplace({i.op, u, m, i.part}, place);
      if (!fresh) fault("a second time; first at [{}]", first->second);
      if (i.op != Opcode::update && place_of(Opcode::update, u, -1) >= 0) fault("comes after UPDATE unit {}", u);
    }
    switch (i.op) {
      case Opcode::forward:
        if (u > 0) after_neighbour(Opcode::forward, input_of(u), i);
        if (u == last() && m > 0 && program_kind != ProgramKind::inference) after(Opcode::forward, u, m - 1);
        return needs(i, {});
      case Opcode::recompute:
        after(Opcode::forward, u, m);
        if (place_of(Opcode::backward_input, u, m) >= 0) fault("comes after its BACKWARD_INPUT");
        return needs(i, {});
      case Opcode::backward_input:
        if (u == 0) fault("the embedding has none");
        after(Opcode::forward, u, m);
        if (is_part(u)) return join_parts(i);
        if (u < last()) after_neighbour(Opcode::backward_input, u == head() ? last() : u + 1, i);
        return needs(i, {BufferKind::saved, BufferKind::gradient});
      case Opcode::backward_weight:
        if (m > 0) after(Opcode::backward_weight, u, m - 1);
        if (is_part(u)) {
          after_neighbour(Opcode::backward_input, last(), i);
          return needs(i, {BufferKind::saved, BufferKind::gradient});
        }
        u == 0 ? after_neighbour(Opcode::backward_input, 1, i) : after(Opcode::backward_input, u, m);
        return needs(i, {BufferKind::saved, BufferKind::gradient, BufferKind::left});
      case Opcode::merge:
        return merge(i);
      case Opcode::reduce:
      case Opcode::scatter:
        return reduction(i);
      case Opcode::norm:
        return norm(i);
      case Opcode::update:
        return update(i);
      default:
        return;
    }
  }

  // Joins what the FORWARDs of all parts of a spread head left, and adds the loss.
  void join_parts(const Instruction& i) {
    if (i.unit != last()) return fault("the last part of the head joins the parts");
    if (i.micro > 0) after(Opcode::backward_input, i.unit, i.micro - 1);
    for (int part = head() + 1; part <= last(); ++part) need(i, {BufferKind::output, part, i.micro});
  }

  void update(const Instruction& i) {
    if (norm_at[i.rank] >= 0) return;
    const bool own = std::ranges::any_of(i.reads, [](const Buffer& b) {
      return b.kind == BufferKind::summand || b.kind == BufferKind::summand_experts;
    });
    if (!own) fault("comes before NORM");
    after(Opcode::backward_weight, i.unit, program.num_micro - 1);
  }

  void merge(const Instruction& i) {
    after(Opcode::backward_weight, i.unit, i.micro);
    const auto not_yet = [&](Opcode op) {
      if (place_of(op, i.unit, i.micro + 1) >= 0)
        fault("comes after {} unit {} micro {}, which adds to the next group", name_of(op), i.unit, i.micro + 1);
    };
    not_yet(Opcode::backward_weight);
    if (i.unit == last()) not_yet(Opcode::forward);
    const auto own = [&](const Buffer& b) {
      if (b.kind != BufferKind::kept_sum || b.unit != i.unit) fault("takes {} for a sum of its own", to_string(b));
    };
    for (const Buffer& b : i.reads) own(b);
    for (const BufferBytes& b : i.allocates) own(b.buffer);
    if (i.reads != i.frees || i.allocates.size() > 1) fault("does not end the sums it reads, or keeps several");
  }

  void reduction(const Instruction& i) {
    const int micro = i.micro < 0 ? program.num_micro - 1 : i.micro;
    after(Opcode::backward_weight, i.unit, micro);
    if (i.resource == Resource::compute) return;
    const int weight = place_of(Opcode::backward_weight, i.unit, micro);
    const bool waits = std::any_of(i.waits.begin(), i.waits.end(), [&](int w) { return w >= weight && w < place; });
    if (weight >= 0 && !waits) fault("does not wait for BACKWARD_WEIGHT unit {} micro {}", i.unit, micro);
    reduce_at[i.rank] = place;
  }

  void norm(const Instruction& i) {
    if (norm_at[i.rank] >= 0) fault("a second time; first at [{}]", norm_at[i.rank]);
    norm_at[i.rank] = place;
    for (int u = 0; u <= last(); ++u)
      if (rank_of_unit[u] == i.rank) after(Opcode::backward_weight, u, program.num_micro - 1);
    const int reduce = reduce_at[i.rank];
    if (reduce >= 0 && std::find(i.waits.begin(), i.waits.end(), reduce) == i.waits.end())
      fault("does not wait for the last reduction of rank {}, [{}]", i.rank, reduce);
  }

  void find_ranks() {
    for (place = 0; place < static_cast<int>(program.instructions.size()); ++place) {
      const Instruction& i = program.instructions[place];
      if (!fields(i) || !is_unit_work(i.op)) continue;
      if (rank_of_unit[i.unit] < 0) rank_of_unit[i.unit] = i.rank;
      if (rank_of_unit[i.unit] != i.rank) fault("on rank {}; the unit began on rank {}", i.rank, rank_of_unit[i.unit]);
    }
    for (int part = 0; part < program.head_parts; ++part)
      if (const int rank = rank_of_unit[head() + 1 + part]; rank != part)
        faults.push_back(fmt::format("part {} of the head is on rank {}", part, rank));
  }

  void whole() {
    const auto missing = [&](Opcode op, int u, int m) {
      if (place_of(op, u, m) < 0) faults.push_back(fmt::format("no {} unit {} micro {}", name_of(op), u, m));
    };
    for (int m = 0; m < program.num_micro; ++m)
      for (int u = 0; u < program.num_units; ++u) {
        if (program_kind != ProgramKind::inference || u < last()) missing(Opcode::forward, u, m);
        if (!training()) continue;
        if (u > 0 && (!is_part(u) || u == last())) missing(Opcode::backward_input, u, m);
        missing(Opcode::backward_weight, u, m);
      }
    for (int rank = 0; training() && rank < program.num_ranks; ++rank)
      if (norm_at[rank] < 0) faults.push_back(fmt::format("no NORM on rank {}", rank));
    for (int u = 0; training() && u < program.num_units; ++u)
      if (place_of(Opcode::update, u, -1) < 0) faults.push_back(fmt::format("no UPDATE unit {}", u));
    for (const auto& [k, life] : lives)
      if (life.alive && !is_resident(std::get<BufferKind>(k)))
        faults.push_back(
            fmt::format("{} is still alive at the end (rank {})", to_string(buffer_of(k)), std::get<0>(k)));
  }

  bool numbers() {
    if (program.head_parts != 0 && (program.head_parts != program.num_ranks || head() < 1)) {
      faults.push_back(fmt::format("a head in {} parts on {} ranks, {} units: expected a part on each rank",
                                   program.head_parts, program.num_ranks, program.num_units));
      return false;
    }
    if (program.num_ranks >= 1 && program.num_units >= 2 && program.num_micro >= 1 &&
        (program.resident.empty() || static_cast<int>(program.resident.size()) == program.num_ranks))
      return true;
    faults.push_back(
        fmt::format("{} ranks, {} units, {} micro-batches, resident buffers of {} ranks: expected at least 1, 2 and 1, "
                    "and as many ranks or none",
                    program.num_ranks, program.num_units, program.num_micro, program.resident.size()));
    return false;
  }

  void run() {
    if (!numbers()) return;
    find_ranks();
    if (!faults.empty()) return;  // the rest counts on them
    for (int rank = 0; rank < static_cast<int>(program.resident.size()); ++rank)
      for (const BufferBytes& b : program.resident[rank]) lives[buffer_key(rank, b.buffer)].alive = true;
    for (place = 0; place < static_cast<int>(program.instructions.size()); ++place) {
      const Instruction& i = program.instructions[place];
      buffers(i);
      order(i);
      if (program_kind == ProgramKind::forward && i.op != Opcode::forward) fault("in a forward program");
    }
    whole();
    const auto add = [&](const std::vector<std::string>& more) {
      faults.insert(faults.end(), more.begin(), more.end());
    };
    add(faults_of_routed_rows(program));
    if (program_kind == ProgramKind::inference) {
      add(faults_of_inference(program));
      add(faults_of_experts(program));
    }
    const Dependencies d = dependencies_of(program);
    add(d.faults);
    if (d.order.size() < program.instructions.size()) faults.push_back("deadlock: " + describe_deadlock(program, d));
  }
};

}  // namespace

std::vector<std::string> validate(const Program& program, ProgramKind kind) {
  Checker checker{program, kind};
  checker.run();
  return std::move(checker.faults);
}

void check_valid(const Program& program, ProgramKind kind) {
  const std::vector<std::string> faults = validate(program, kind);
  TERN_CHECK(faults.empty(), "program: {} faults, the first: {}", faults.size(), faults[0]);
}

}  // namespace tern
