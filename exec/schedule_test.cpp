// Any legal order of the same micro-batches gives the same bits: weights and optimizer state after the step, and the loss.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/executor_testing.h"
#include "program/generate.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

bool ends_step(const Instruction& i) {
  return i.op == Opcode::reduce || i.op == Opcode::norm || i.op == Opcode::update;
}

// Whether `later`, behind `earlier` in a sound Program, must stay behind it: they name one buffer and not both only read
// it, or add to the same sum, or one of them ends the step (two UPDATEs may change places).
bool stays_behind(const Instruction& earlier, const Instruction& later, int head) {
  if (ends_step(earlier) || ends_step(later)) return !(earlier.op == Opcode::update && later.op == Opcode::update);
  if (earlier.op == later.op && earlier.unit == later.unit &&
      (later.op == Opcode::backward_weight || (later.op == Opcode::forward && later.unit == head)))
    return true;
  if (earlier.op == Opcode::forward && later.op == Opcode::recompute && earlier.unit == later.unit &&
      earlier.micro == later.micro)
    return true;
  const auto changes = [](const Instruction& i, const Buffer& b) {
    return std::ranges::count(i.frees, b) > 0 || std::ranges::count(i.allocates, b, &BufferBytes::buffer) > 0;
  };
  const auto touches = [&](const Instruction& i, const Buffer& b) {
    return changes(i, b) || std::ranges::count(i.reads, b) > 0;
  };
  const auto meets = [&](const Instruction& one, const Instruction& other) {
    return std::ranges::any_of(one.frees, [&](const Buffer& b) { return touches(other, b); }) ||
           std::ranges::any_of(one.allocates, [&](const BufferBytes& b) { return touches(other, b.buffer); });
  };
  return meets(earlier, later) || meets(later, earlier);
}

Program shuffled(const Program& p, uint64_t seed) {
  const size_t n = p.instructions.size();
  std::vector<std::vector<size_t>> before(n);
  for (size_t b = 0; b < n; ++b)
    for (size_t a = 0; a < b; ++a)
      if (stays_behind(p.instructions[a], p.instructions[b], p.num_units - 1)) before[b].push_back(a);
  Program out = p;
  out.instructions.clear();
  std::vector<bool> placed(n);
  while (out.instructions.size() < n) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < n; ++i)
      if (!placed[i] && std::ranges::all_of(before[i], [&](size_t a) { return placed[a]; })) ready.push_back(i);
    const size_t chosen = ready[random_u64({seed, 1}, out.instructions.size()) % ready.size()];
    placed[chosen] = true;
    out.instructions.push_back(p.instructions[chosen]);
  }
  return out;
}

size_t place_of(const Program& p, Opcode op, int unit, int micro) {
  const auto it = std::ranges::find_if(
      p.instructions, [&](const Instruction& i) { return i.op == op && i.unit == unit && i.micro == micro; });
  return static_cast<size_t>(it - p.instructions.begin());
}

struct Outcome {
  std::vector<std::byte> bits;
  double loss = 0, norm = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
Outcome outcome_of(const Case& c, const Program& p) {
  Bench run(c);
  const ExecuteResult result = run.execute_with(p, c.multiply, 0.125);
  EXPECT_EQ(describe_mismatches(result), "");
  Outcome out{bits(run.spec, run.weights), result.loss_sum, result.update ? result.update->gradient_norm : 0};
  const auto add = [&](const std::vector<Tensor>& all) {
    for (const Tensor& t : all) {
      const auto* begin = static_cast<const std::byte*>(t.data());
      out.bits.insert(out.bits.end(), begin, begin + t.bytes());
    }
  };
  add(run.state.master);
  for (const std::vector<Tensor>& slot : run.state.slots) add(slot);
  return out;
}

TEST(Schedule, AnyLegalOrderGivesTheSameBits) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    Case c = one;
    c.micro = {2, 1, 2};
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      const Bench shape(c);
      const Program p = training_program(shape.spec, shape.costs, recompute);
      const Outcome want = outcome_of(c, p);
      int heads_ahead = 0;  // the second micro-batch's head before the first one's embedding
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        const Program other = shuffled(p, seed);
        ASSERT_EQ(validate(other), std::vector<std::string>{});
        heads_ahead +=
            place_of(other, Opcode::forward, p.num_units - 1, 1) < place_of(other, Opcode::backward_weight, 0, 0);
        EXPECT_TRUE(outcome_of(c, other) == want) << "order " << seed;
      }
      EXPECT_GT(heads_ahead, 0) << "no order that a shared gradient would have told from the first";
    }
  }
}

}  // namespace
}  // namespace tern
