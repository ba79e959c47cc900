#include "program/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace tern {
namespace {

using Message = std::tuple<int, int, BufferKind, int, int>;  // from, to, buffer

struct Finder {
  const Program& program;
  int count = static_cast<int>(program.instructions.size());
  Dependencies found{};
  std::vector<std::pair<int, int>> arcs;  // (waiting, awaited)

  std::string place(int k) const { return fmt::format("[{}] {}", k, to_string(program.instructions[k])); }
  void arc(int waiting, int awaited) { arcs.push_back({waiting, awaited}); }

  void pair_messages() {
    found.send_of.assign(count, -1);
    std::map<Message, int> sends;
    for (int k = 0; k < count; ++k) {
      const Instruction& i = program.instructions[k];
      if (i.op != Opcode::send || i.reads.empty()) continue;
      const Buffer& b = i.reads[0];
      if (!sends.emplace(Message{i.rank, i.peer, b.kind, b.unit, b.micro}, k).second)
        found.faults.push_back(fmt::format("{}: a second time", place(k)));
    }
    for (int k = 0; k < count; ++k) {
      const Instruction& i = program.instructions[k];
      if (i.op != Opcode::recv || i.allocates.empty()) continue;
      const Buffer& b = i.allocates[0].buffer;
      const auto it = sends.find({i.peer, i.rank, b.kind, b.unit, b.micro});
      if (it == sends.end()) {
        found.faults.push_back(fmt::format("{}: no SEND for it", place(k)));
        continue;
      }
      found.send_of[k] = it->second;
      arc(k, it->second);
      sends.erase(it);
    }
    for (const auto& [message, k] : sends) found.faults.push_back(fmt::format("{}: no RECV for it", place(k)));
  }

  void resources() {
    std::map<std::tuple<int, Resource, int>, int> last;
    for (int k = 0; k < count; ++k) {
      const Instruction& i = program.instructions[k];
      if (i.op == Opcode::recv) continue;
      const auto [it, fresh] = last.try_emplace({i.rank, i.resource, i.resource == Resource::link ? i.peer : -1}, k);
      if (!fresh) arc(k, std::exchange(it->second, k));
    }
  }

  void births_and_waits() {
    std::map<BufferKey, int> born;
    for (int k = 0; k < count; ++k) {
      const Instruction& i = program.instructions[k];
      for (const Buffer& b : i.reads)
        if (const auto it = born.find(buffer_key(i.rank, b)); it != born.end()) arc(k, it->second);
      for (const BufferBytes& b : i.allocates) born[buffer_key(i.rank, b.buffer)] = k;
      for (const Buffer& b : i.frees) born.erase(buffer_key(i.rank, b));
      for (const int w : i.waits) {
        if (w >= 0 && w < count)
          arc(k, w);
        else
          found.faults.push_back(fmt::format("{}: waits for [{}], which is not there", place(k), w));
      }
    }
  }

  void lay_out() {
    std::sort(arcs.begin(), arcs.end());
    arcs.erase(std::unique(arcs.begin(), arcs.end()), arcs.end());
    found.first.assign(count + 1, 0);
    for (const auto& [waiting, awaited] : arcs) {
      ++found.first[waiting + 1];
      found.list.push_back(awaited);
    }
    for (int k = 0; k < count; ++k) found.first[k + 1] += found.first[k];
  }

  // Kahn's algorithm; the order of ready instructions is that of the list and their release: always the same.
  void sort() {
    std::vector<int> open(count), next(count + 1, 0), followers(found.list.size());
    for (const auto& [waiting, awaited] : arcs) ++next[awaited + 1];
    for (int k = 0; k < count; ++k) next[k + 1] += next[k];
    std::vector<int> fill(next.begin(), next.end());
    for (const auto& [waiting, awaited] : arcs) followers[fill[awaited]++] = waiting;
    for (int k = 0; k < count; ++k)
      if ((open[k] = found.first[k + 1] - found.first[k]) == 0) found.order.push_back(k);
    for (size_t at = 0; at < found.order.size(); ++at)
      for (int f = next[found.order[at]]; f < next[found.order[at] + 1]; ++f)
        if (--open[followers[f]] == 0) found.order.push_back(followers[f]);
  }
};

}  // namespace

Dependencies dependencies_of(const Program& program) {
  Finder f{program};
  f.pair_messages();
  f.resources();
  f.births_and_waits();
  f.lay_out();
  f.sort();
  return std::move(f.found);
}

std::string describe_deadlock(const Program& program, const Dependencies& d) {
  std::vector<char> ran(program.instructions.size(), 0);
  for (const int k : d.order) ran[k] = 1;
  std::vector<char> told(program.num_ranks, 0);
  std::string text;
  for (size_t k = 0; k < program.instructions.size(); ++k) {
    const Instruction& i = program.instructions[k];
    if (ran[k] || told[i.rank]) continue;
    told[i.rank] = 1;
    const auto* awaited = std::find_if(d.list.data() + d.first[k], d.list.data() + d.first[k + 1],
                                       [&](int other) { return !ran[other]; });
    text += fmt::format("{}rank {} at [{}] {}, which waits for [{}] {}", text.empty() ? "" : "; ", i.rank, k,
                        to_string(i), *awaited, to_string(program.instructions[*awaited]));
  }
  return text;
}

}  // namespace tern
