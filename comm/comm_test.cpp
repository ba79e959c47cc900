#include "comm/comm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "tensor/arena.h"

namespace tern {
namespace {

TEST(SoloComm, IsATrueNoOp) {
  Arena arena;
  Tensor t = arena.allocate(DType::f32, {3}, MemoryClass::gradients);
  const std::array<float, 3> before{1.5f, -0.f, NAN};
  std::memcpy(t.data(), before.data(), sizeof before);
  const auto comm = make_solo_comm();
  EXPECT_EQ(comm->rank(), 0);
  EXPECT_EQ(comm->size(), 1);
  const int64_t allocations = arena.num_allocations();
  std::array<Tensor*, 1> tensors{&t};
  comm->all_reduce_sum(tensors);
  comm->barrier();
  EXPECT_EQ(std::memcmp(t.data(), before.data(), sizeof before), 0) << "bits, so -0 and NaN count";
  EXPECT_EQ(comm->bytes().sent + comm->bytes().received, 0);
  EXPECT_EQ(arena.num_allocations(), allocations);
}

}  // namespace
}  // namespace tern
