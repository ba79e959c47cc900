#include "program/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"

namespace tern {
namespace {

using Key = std::tuple<int, BufferKind, int, int>;  // rank, kind, unit, micro

struct Checker {
  const Program& program;
  bool training;
  std::vector<std::string> faults;
  std::map<Key, bool> alive;                       // present: was born once
  std::map<std::tuple<Opcode, int, int>, int> at;  // (op, unit, micro) -> place
  size_t place = 0;

  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults.push_back(fmt::format("[{}] {}: {}", place, to_string(program.instructions[place]),
                                 fmt::format(format, std::forward<Args>(args)...)));
  }

  int last() const { return program.num_units - 1; }
  bool done(Opcode op, int unit, int micro) const { return at.contains({op, unit, micro}); }

  bool fields(const Instruction& i) {
    const bool once = i.op == Opcode::reduce || i.op == Opcode::norm || i.op == Opcode::update;  // a step
    const size_t before = faults.size();
    if (i.rank < 0 || i.rank >= program.num_ranks) fault("rank {} of {}", i.rank, program.num_ranks);
    if (i.op == Opcode::norm ? i.unit != -1 : i.unit < 0 || i.unit >= program.num_units)
      fault("unit {} of {}", i.unit, program.num_units);
    if (once ? i.micro != -1 : i.micro < 0 || i.micro >= program.num_micro)
      fault("micro-batch {} of {}", i.micro, program.num_micro);
    if (i.workspace_bytes < 0 || i.flops < 0 || i.bytes_moved < 0) fault("a negative cost");
    for (const BufferBytes& b : i.allocates)
      if (b.bytes < 0) fault("{} has {} bytes", to_string(b.buffer), b.bytes);
    return faults.size() == before;
  }

  void twice(const std::vector<Buffer>& list, const char* verb) {
    for (size_t a = 0; a < list.size(); ++a)
      if (std::count(list.begin(), list.begin() + a, list[a]) > 0) fault("{} {} twice", verb, to_string(list[a]));
  }

  void buffers(const Instruction& i) {
    std::vector<Buffer> born;
    for (const BufferBytes& b : i.allocates) born.push_back(b.buffer);
    twice(i.reads, "reads");
    twice(born, "allocates");
    twice(i.frees, "frees");
    const auto key = [&](const Buffer& b) { return Key{i.rank, b.kind, b.unit, b.micro}; };
    for (const Buffer& b : i.reads) {
      const auto it = alive.find(key(b));
      if (it == alive.end() || !it->second) fault("reads {}, which is not alive", to_string(b));
    }
    for (const Buffer& b : born) {
      const auto it = alive.find(key(b));
      if (it != alive.end() && it->second)
        fault("allocates {}, which is alive", to_string(b));
      else if (it != alive.end() && i.op != Opcode::recompute)
        fault("allocates {} a second time", to_string(b));
      alive[key(b)] = true;
    }
    for (const Buffer& b : i.frees) {
      const auto it = alive.find(key(b));
      if (it == alive.end() || !it->second)
        fault("frees {}, which is not alive", to_string(b));
      else
        it->second = false;
    }
  }

  void needs(const Instruction& i, std::initializer_list<BufferKind> own, bool x) {
    const auto reads = [&](Buffer b) { return std::find(i.reads.begin(), i.reads.end(), b) != i.reads.end(); };
    const auto need = [&](Buffer b) {
      if (!reads(b)) fault("does not read {}", to_string(b));
    };
    if (x && i.unit > 0) need({BufferKind::output, i.unit - 1, i.micro});
    for (const BufferKind kind : own) {
      if (kind == BufferKind::gradient && i.unit == last()) continue;
      if (kind != BufferKind::gradient && i.unit == 0) continue;
      need({kind, i.unit, i.micro});
    }
  }

  void after(Opcode op, int unit, int micro) {
    if (!done(op, unit, micro)) fault("comes before {} unit {} micro {}", name_of(op), unit, micro);
  }

  void order(const Instruction& i) {
    const int u = i.unit, m = i.micro;
    if (done(i.op, u, m)) fault("a second time; first at [{}]", at[{i.op, u, m}]);
    switch (i.op) {
      case Opcode::forward:
        if (u > 0) after(Opcode::forward, u - 1, m);
        if (u == last() && m > 0) after(Opcode::forward, u, m - 1);
        needs(i, {}, true);
        break;
      case Opcode::recompute:
        after(Opcode::forward, u, m);
        if (done(Opcode::backward_input, u, m)) fault("comes after its BACKWARD_INPUT");
        needs(i, {}, true);
        break;
      case Opcode::backward_input:
        if (u == 0) fault("the embedding has none");
        if (u == last())
          after(Opcode::forward, u, m);
        else
          after(Opcode::backward_input, u + 1, m);
        needs(i, {BufferKind::saved, BufferKind::gradient}, true);
        break;
      case Opcode::backward_weight:
        after(Opcode::backward_input, std::max(u, 1), m);
        if (m > 0) after(Opcode::backward_weight, u, m - 1);
        needs(i, {BufferKind::saved, BufferKind::gradient, BufferKind::left}, true);
        break;
      case Opcode::reduce:
        after(Opcode::backward_weight, u, program.num_micro - 1);
        if (done(Opcode::norm, -1, -1)) fault("comes after NORM");
        break;
      case Opcode::norm:
        for (int unit = 0; unit <= last(); ++unit) after(Opcode::backward_weight, unit, program.num_micro - 1);
        break;
      case Opcode::update:
        if (!done(Opcode::norm, -1, -1)) fault("comes before NORM");
        break;
      default:
        fault("is for many ranks (validate_ranks)");
        return;
    }
    at.emplace(std::tuple{i.op, u, m}, static_cast<int>(place));
  }

  void whole() {
    const auto missing = [&](Opcode op, int u, int m) {
      if (!done(op, u, m)) faults.push_back(fmt::format("no {} unit {} micro {}", name_of(op), u, m));
    };
    for (int m = 0; m < program.num_micro; ++m)
      for (int u = 0; u < program.num_units; ++u) {
        missing(Opcode::forward, u, m);
        if (!training) continue;
        if (u > 0) missing(Opcode::backward_input, u, m);
        missing(Opcode::backward_weight, u, m);
      }
    if (training && !done(Opcode::norm, -1, -1)) faults.push_back("no NORM");
    for (int u = 0; training && u < program.num_units; ++u)
      if (!done(Opcode::update, u, -1)) faults.push_back(fmt::format("no UPDATE unit {}", u));
    for (const auto& [key, is_alive] : alive)
      if (is_alive)
        faults.push_back(fmt::format("{} is still alive at the end (rank {})",
                                     to_string(Buffer{std::get<1>(key), std::get<2>(key), std::get<3>(key)}),
                                     std::get<0>(key)));
  }

  void run() {
    if (program.num_ranks < 1 || program.num_units < 2 || program.num_micro < 1)
      faults.push_back(fmt::format("{} ranks, {} units, {} micro-batches: expected at least 1, 2 and 1",
                                   program.num_ranks, program.num_units, program.num_micro));
    for (place = 0; place < program.instructions.size(); ++place) {
      const Instruction& i = program.instructions[place];
      if (!fields(i)) continue;
      buffers(i);
      order(i);
      if (!training && i.op != Opcode::forward) fault("in a forward program");
    }
    whole();
  }
};

}  // namespace

std::vector<std::string> validate(const Program& program, bool training) {
  Checker checker{program, training, {}, {}, {}};
  checker.run();
  return std::move(checker.faults);
}

void check_valid(const Program& program, bool training) {
  const std::vector<std::string> faults = validate(program, training);
  TERN_CHECK(faults.empty(), "program: {} faults, the first: {}", faults.size(), faults[0]);
}

}  // namespace tern
