// Products of a tensor group beside the exchange of their rows, one by one: bits and bytes of exchanges in their places for any number of
// rows, that messages do pass while the rank multiplies, and errors that end all ranks.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/decorators.h"
#include "comm/ranks_testing.h"
#include "model/model_testing.h"
#include "model/tensor_ranks.h"

namespace tern {
namespace {

constexpr int64_t kPairIn = 24, kPairOut = 20;

Tensor pair_normal(Arena& arena, DType dtype, Shape shape, uint64_t seed) {
  const Tensor t = arena.allocate(dtype, shape, MemoryClass::activations);
  fill_normal(t, 1, seed);
  return t;
}

// Calls the four products of T rows; returns all that they leave on this rank.
std::string pair_products(int64_t T, DType dtype, const Compute& c) {
  Arena& arena = c.arena;
  const auto rank = static_cast<uint64_t>(c.tensor->comm.rank());
  const Linear linear{.weight = DenseWeight{pair_normal(arena, dtype, {kPairOut, kPairIn}, 1 + rank)},
                      .bias = pair_normal(arena, dtype, {kPairOut}, 20 + rank),
                      .out = kPairOut,
                      .in = kPairIn,
                      .branches = {}};
  const int64_t N = own_rows(T, c).size();
  std::string bits;
  const auto add = [&](const Tensor& t) {
    if (t.count() > 0) bits.append(static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes()));
  };
  const Tensor y = pair_normal(arena, dtype, {T, kPairOut}, 0), dx = pair_normal(arena, dtype, {T, kPairIn}, 0);
  add(gathered_forward(linear, pair_normal(arena, dtype, {N, kPairIn}, 40 + rank), y, c)), add(y);
  add(gathered_backward_input(linear, pair_normal(arena, dtype, {N, kPairOut}, 60 + rank), dx, c)), add(dx);
  const Tensor own_y = pair_normal(arena, dtype, {N, kPairOut}, 0), own_dx = pair_normal(arena, dtype, {N, kPairIn}, 0);
  columns_forward(linear, pair_normal(arena, dtype, {T, kPairIn}, 80 + rank), own_y, c), add(own_y);
  rows_backward_input(linear, pair_normal(arena, dtype, {T, kPairOut}, 100 + rank), own_dx, c), add(own_dx);
  return bits;
}

struct GroupBits {
  std::vector<std::string> ranks;
  std::vector<LinkBytes> links;
  friend bool operator==(const GroupBits&, const GroupBits&) = default;
};

GroupBits group_bits(int ranks, int64_t T, DType dtype, Multiply multiply, bool beside, bool baton) {
  GroupBits all{std::vector<std::string>(static_cast<size_t>(ranks)),
                std::vector<LinkBytes>(static_cast<size_t>(ranks))};
  with_comms(ranks, {.baton = baton}, [&](Comm& comm) {
    Arena arena;
    ExchangeBeside exchange;
    const TensorRanks group{comm, {}, nullptr, beside ? &exchange : nullptr};
    const auto at = static_cast<size_t>(comm.rank());
    all.ranks[at] = pair_products(T, dtype, {.arena = arena, .multiply = multiply, .tensor = &group});
    all.links[at] = comm.bytes();
  });
  return all;
}

TEST(TensorPairs, AnyNumberOfRowsHasTheBitsAndBytesOfExchangesInTheirPlaces) {
  for (const int ranks : {2, 4, 8})
    for (const int64_t T : {0, 1, 2, 3, 5, 8, 15, 16, 17, 65})
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
        for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
          SCOPED_TRACE(fmt::format("{} rows on {} in {}", T, ranks, name_of(dtype)));
          const GroupBits want = group_bits(ranks, T, dtype, multiply, false, true);
          EXPECT_EQ(want.ranks[0].empty(), T == 0);
          EXPECT_TRUE(group_bits(ranks, T, dtype, multiply, true, T % 2 == 0) == want);
        }
}

TEST(TensorPairs, SoItIsBetweenProcesses) {
  for (const int64_t T : {3, 16}) {
    const GroupBits want = group_bits(2, T, DType::f32, Multiply::exact, false, true);
    GroupBits got{std::vector<std::string>(2), std::vector<LinkBytes>(2)};
    run_socket_ranks(2, 20, [&](std::unique_ptr<Transport> transport) {
      Comm comm(std::move(transport));
      Arena arena;
      ExchangeBeside exchange;
      const TensorRanks group{comm, {}, nullptr, &exchange};
      const auto at = static_cast<size_t>(comm.rank());
      got.ranks[at] = pair_products(T, DType::f32, {.arena = arena, .tensor = &group});
      got.links[at] = comm.bytes();
      comm.barrier();
    });
    EXPECT_TRUE(got == want) << T;
  }
}

// Which threads send, and how many messages.
class SendersTransport final : public TransportDecorator {
 public:
  SendersTransport(std::unique_ptr<Transport> inner, std::thread::id computes, int& by_it, int& by_others)
      : TransportDecorator(std::move(inner)), computes_(computes), by_it_(by_it), by_others_(by_others) {}
  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    ++(std::this_thread::get_id() == computes_ ? by_it_ : by_others_);
    TransportDecorator::send(to, tag, bytes);
  }

 private:
  std::thread::id computes_;
  int &by_it_, &by_others_;
};

// 8 rows on 2 ranks: each product's exchange is one message, beside it two. Exchanges of rows whose bits depend on their number stay in
// their places.
TEST(TensorPairs, MessagesPassOnTheSecondThreadAndOnlyWhereProductsAreCut) {
  for (const bool beside : {false, true})
    for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
      const int cut = multiplies_rows_alone(multiply, DType::f32, ProductKind::forward) +
                      multiplies_rows_alone(multiply, DType::f32, ProductKind::input_gradient);
      run_ranks(2, {}, [&](std::unique_ptr<Transport> t) {
        int own = 0, others = 0;
        Comm comm(std::make_unique<SendersTransport>(std::move(t), std::this_thread::get_id(), own, others));
        Arena arena;
        ExchangeBeside exchange;
        const TensorRanks group{comm, {}, nullptr, beside ? &exchange : nullptr};
        pair_products(8, DType::f32, {.arena = arena, .multiply = multiply, .tensor = &group});
        EXPECT_EQ(others, beside ? 4 * cut : 0);
        EXPECT_EQ(own, beside ? 4 - 2 * cut : 4);
      });
    }
}

TEST(TensorPairs, ARankThatDiesWhileAnExchangePassesEndsAllRanks) {
  for (int64_t at = 0; at < 8; ++at) {
    std::string said = "no error";
    try {
      run_ranks(2, {.deadline_s = 60}, [&](std::unique_ptr<Transport> t) {
        if (t->rank() == 1) t = faulty(std::move(t), {TransportFaultKind::kill, at});
        Comm comm(std::move(t));
        Arena arena;
        ExchangeBeside exchange;
        const TensorRanks group{comm, {}, nullptr, &exchange};
        pair_products(8, DType::f64, {.arena = arena, .tensor = &group});
      });
    } catch (const Error& e) { said = e.what(); }
    EXPECT_NE(said.find("rank 1: killed on purpose at"), std::string::npos) << at << ": " << said;
  }
}

// The other rank never comes: the wait says what for.
TEST(TensorPairs, ARankThatIsNotThereIsNamedByTheWait) {
  std::string said;
  try {
    with_comms(2, {}, [&](Comm& comm) {
      if (comm.rank() == 1) return;
      Arena arena;
      ExchangeBeside exchange;
      const TensorRanks group{comm, {}, nullptr, &exchange};
      pair_products(8, DType::f64, {.arena = arena, .tensor = &group});
    });
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::peer);
    said = e.what();
  }
  EXPECT_NE(said.find("all-gather 1 of rank 1"), std::string::npos) << said;
}

}  // namespace
}  // namespace tern
