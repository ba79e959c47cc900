#include "exec/stage_messages.h"

#include <algorithm>
#include <cstring>

#include "model/tensor_ranks.h"
#include "tensor/bytes_of.h"

namespace tern {
namespace {

uint64_t tag_of_message(const Buffer& b) {
  const uint64_t number = (static_cast<uint64_t>(b.unit) << 32 | static_cast<uint64_t>(b.micro)) << 1;
  return tag_of(MessageKind::stage, number | (b.kind == BufferKind::gradient ? 1 : 0));
}

// The rank with the same place in another stage.
int peer_of(const StageMessages& m, const Instruction& i) {
  const int ranks = m.in.world->size() / m.program.num_ranks;
  return i.peer * ranks + m.in.world->rank() % ranks;
}

}  // namespace

Tensor StageMessages::memory_for(const Buffer& b, Arena& arena) const {
  const int64_t rows =
      std::ssize(in.micro_batches[b.micro].tokens) / (in.compute.tensor ? in.compute.tensor->comm.size() : 1);
  return arena.allocate(weight_type(*in.update), {rows, in.spec.width}, MemoryClass::activations);
}

void StageMessages::send(const Instruction& i, const Tensor& t) {
  Tensor copy = memory.allocate(t.dtype(), t.shape(), MemoryClass::staging);
  std::memcpy(copy.data(), t.data(), static_cast<size_t>(t.bytes()));
  in.world->transport().send(peer_of(*this, i), tag_of_message(i.reads[0]), bytes_of(copy));
  sent.push_back(std::move(copy));
  expected.sent += i.message_bytes;
}

void StageMessages::receive(const Instruction& i, const Tensor& into) {
  const Buffer& wanted = i.allocates[0].buffer;
  if (const auto kept = std::ranges::find(early, wanted, &std::pair<Buffer, Tensor>::first); kept != early.end()) {
    std::memcpy(into.data(), kept->second.data(), static_cast<size_t>(kept->second.bytes()));
    early.erase(kept);
    return;
  }
  const auto take = [&](const Buffer& b, const Tensor& t) {
    in.world->transport().recv(peer_of(*this, i), tag_of_message(b), bytes_of(t));
    expected.received += t.bytes();
  };
  const std::vector<Buffer>& order = in.arrivals.at(static_cast<size_t>(i.peer));
  for (size_t& next = arrived[i.peer];;) {
    const Buffer b = order.at(next++);
    if (b == wanted) return take(b, into);
    early.emplace_back(b, memory_for(b, memory));
    take(b, early.back().second);
  }
}

int64_t stage_message_bytes(const Program& all, int rank) {
  const std::vector<std::vector<Buffer>> arrivals = arrivals_of(all, rank);
  std::vector<Buffer> early;
  std::map<int, size_t> arrived;
  int64_t sent = 0, kept = 0, most = 0;
  for (const Instruction& i : all.instructions) {
    if (i.rank != rank) continue;
    if (i.op == Opcode::send) most = std::max(most, (sent += i.message_bytes) + kept);
    if (i.op != Opcode::recv) continue;
    if (std::erase(early, i.allocates[0].buffer) > 0) {
      kept -= i.message_bytes;
      continue;
    }
    const std::vector<Buffer>& order = arrivals.at(static_cast<size_t>(i.peer));
    for (size_t& next = arrived[i.peer]; order.at(next++) != i.allocates[0].buffer;) {
      early.push_back(order[next - 1]);
      kept += i.message_bytes;
    }
    most = std::max(most, sent + kept);
  }
  return most;
}

std::vector<std::vector<Buffer>> arrivals_of(const Program& all, int rank) {
  std::vector<std::vector<Buffer>> arrivals(static_cast<size_t>(all.num_ranks));
  for (const Instruction& i : all.instructions)
    if (i.op == Opcode::send && i.peer == rank) arrivals[static_cast<size_t>(i.rank)].push_back(i.reads[0]);
  return arrivals;
}

}  // namespace tern
