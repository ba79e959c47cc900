// The table of model/tensor_parts.h against two who do not know it: the cheapest layouts, and shapes alone.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/model_testing.h"
#include "model/tensor_parts.h"
#include "spec/alternating_layouts.h"
#include "spec/derived_layouts.h"

namespace tern {
namespace {

// Sizes that 2 and 4 ranks divide.
ModelSpec layouts_spec(const std::string& family, bool tied = true) {
  HfConfig c = tiny_config(family);
  c.tie_word_embeddings = tied;
  c.num_attention_heads = 8, c.intermediate_size = 48, c.vocab_size = 1024;  // tables outweigh the rows
  c.num_key_value_heads = hf_family(c).has_kv_heads ? 4 : 8;
  return model_spec(c);
}

void expect_the_table(const ModelSpec& spec, const std::vector<ParameterLayout>& layouts, int ranks) {
  const std::vector<ParameterInfo> all = parameters(spec);
  const auto head = static_cast<int>(spec.units.size()) - 1;
  ASSERT_EQ(std::ranges::count_if(layouts,
                                  [&](const ParameterLayout& l) { return l.name != "embed.tokens" || l.unit != head; }),
            std::ssize(all));
  for (const ParameterInfo& p : all) {
    const auto own = std::ranges::find(layouts, p.name, &ParameterLayout::name);
    ASSERT_NE(own, layouts.end()) << p.name;
    if (p.name == "embed.positions" && own->kept != whole()) {  // the table has them whole, as they are small
      EXPECT_EQ(own->kept, split(0));
      continue;
    }
    std::vector<int64_t> shape;
    for (int dim = 0; dim < p.shape.rank; ++dim) shape.push_back(p.shape[dim]);
    for (int rank = 0; rank < ranks; ++rank) {
      // Neighbouring sections of one part are one interval in either list.
      const Holding table = tensor_holding(spec, p, rank, ranks),
                    found = holding({DType::f32, shape, {ranks}, {own->kept}}, rank);
      EXPECT_EQ(table, found) << p.name << " lies as " << to_string(own->kept) << ", rank " << rank;
    }
  }
}

class TensorLayouts : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(TensorLayouts, TheCheapestIsMegatrons) {
  const auto& [family, ranks] = GetParam();
  const ModelSpec spec = layouts_spec(family);
  const DerivedLayouts d = derive_layouts(spec, {.ranks = ranks, .rows = 24, .sequences = 1});
  expect_the_table(spec, d.parameters, ranks);
  for (const ParameterLayout& p : d.parameters) EXPECT_EQ(p.kept, p.used) << p.name;
  // Sequence parallelism, but for what ranks look up of their part of the table: summands, which may be scattered later.
  for (size_t u = 1; u < d.rows.size(); ++u) EXPECT_EQ(d.rows[u], split(0)) << u;
}

TEST_P(TensorLayouts, ShapesAloneGiveTheSame) {
  const auto& [family, ranks] = GetParam();
  const ModelSpec spec = layouts_spec(family);
  expect_the_table(spec, alternating_layouts(spec, ranks), ranks);
}

INSTANTIATE_TEST_SUITE_P(Families, TensorLayouts,
                         testing::Combine(testing::Values("llama", "gpt2", "qwen2", "qwen3", "gemma2", "phi3", "bloom",
                                                          "gpt_neox", "falcon"),
                                          testing::Values(2, 4)));

TEST(DerivedLayouts, RowsStayWholeWhereNormsMay) {
  const DerivedLayouts d = derive_layouts(layouts_spec("llama"), {.ranks = 4, .rows = 24, .all_in_parts = false});
  for (size_t u = 1; u < d.rows.size(); ++u) EXPECT_EQ(d.rows[u], whole()) << u;
}

// Megatron splits every table of tokens by the vocabulary. A table that the head does not share is cheaper by columns: an exchange
// of columns for rows sends an n-th of what a sum does.
TEST(DerivedLayouts, ATableOfItsOwnLiesByColumns) {
  const ModelSpec spec = layouts_spec("llama", false);
  const DerivedLayouts d = derive_layouts(spec, {.ranks = 4, .rows = 24}),
                       tied = derive_layouts(layouts_spec("llama"), {.ranks = 4, .rows = 24});
  EXPECT_EQ(d.parameters[0].name, "embed.tokens");
  EXPECT_EQ(d.parameters[0].kept, split(1));
  EXPECT_EQ(tied.forward_bytes - d.forward_bytes, 3 * 24 * spec.width * 2 * 3 / 4);
}

TEST(DerivedLayouts, ManyRowsGatherWeightsAndFewDoNot) {
  const ModelSpec spec = layouts_spec("llama", false);
  // Rows of many whole sequences outweigh the weights: each rank takes its own and gathers the matrices (ZeRO 3).
  const DerivedLayouts many = derive_layouts(spec, {.ranks = 4, .rows = 64 * 512, .sequences = 64});
  for (const ParameterLayout& p : many.parameters) EXPECT_EQ(p.used, whole()) << p.name;
  for (const AxisLayout& rows : many.rows) EXPECT_EQ(rows, split(0));
  // The same, where whole matrices may be kept: replicas, which sum gradients alone.
  const DerivedLayouts replicas =
      derive_layouts(spec, {.ranks = 4, .rows = 64 * 512, .sequences = 64, .matrices_in_parts = false});
  for (const ParameterLayout& p : replicas.parameters) EXPECT_EQ(p.kept, whole()) << p.name;
  EXPECT_EQ(replicas.forward_bytes, 0);
  EXPECT_EQ(replicas.backward_bytes, 2 * 3 * 2 * num_parameters(spec));  // 2(n − 1) times the bytes of the weights
  EXPECT_LT(replicas.backward_bytes, many.forward_bytes + many.backward_bytes);
}

TEST(DerivedLayouts, BytesAreTheClosedForm) {
  const ModelSpec spec = layouts_spec("llama");
  const int64_t n = 4, rows = 24, unit = (n - 1) * rows * spec.width * 2;  // a gather of the rows by all, in bf16
  const DerivedLayouts d = derive_layouts(spec, {.ranks = 4, .rows = rows});
  const int64_t units = 2 * spec.layers;
  // Each block gathers before and scatters behind; the embedding scatters, the head gathers; the loss sums three numbers a row.
  EXPECT_EQ(d.forward_bytes, 2 * units * unit + 2 * unit + 2 * (n - 1) * 3 * rows * 4);
  // The same backward, and norms' weights are summed: one a block and the head's.
  EXPECT_EQ(d.backward_bytes, 2 * units * unit + 2 * unit + 2 * (n - 1) * (units + 1) * spec.width * 2);
}

// Both ends may use a tied table in unlike ways, and each is told.
TEST(DerivedLayouts, ATiedTableIsToldAtBothEnds) {
  const ModelSpec spec = layouts_spec("llama");
  const DerivedLayouts d = derive_layouts(spec, {.ranks = 4, .rows = 64 * 512, .sequences = 64});
  ASSERT_EQ(d.parameters.front().name, "embed.tokens");
  ASSERT_EQ(d.parameters.back().name, "embed.tokens");
  EXPECT_EQ(d.parameters.front().kept, d.parameters.back().kept);
  EXPECT_EQ(d.parameters.back().used, whole());
  EXPECT_EQ(d.parameters.back().unit, static_cast<int>(spec.units.size()) - 1);
}

TEST(DerivedLayouts, WhatCannotBeIsRefused) {
  const auto message = [](const ModelSpec& spec, const LayoutQuestion& q) -> std::string {
    try {
      derive_layouts(spec, q);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return e.what();
    }
    return "";
  };
  const ModelSpec spec = layouts_spec("llama");
  EXPECT_NE(message(spec, {.ranks = 1, .rows = 8}).find("at least two ranks"), std::string::npos);
  EXPECT_NE(message(spec, {.ranks = 2, .rows = 9, .sequences = 2}).find("whole sequences"), std::string::npos);
  EXPECT_NE(message(spec, {.ranks = 8, .rows = 24})
                .find("layer 0 has 8 heads and 4 key/value heads, a micro-batch has 1 sequence"),
            std::string::npos);
  EXPECT_NE(message(layouts_spec("mixtral"), {.ranks = 2, .rows = 8}).find("layer 0 has experts"), std::string::npos);
  EXPECT_NE(message(layouts_spec("bert"), {.ranks = 2, .rows = 8}).find("an encoder"), std::string::npos);
  ModelSpec frozen = spec;
  frozen.units[3].frozen = true;
  EXPECT_NE(message(frozen, {.ranks = 2, .rows = 8}).find("layer 1 is frozen"), std::string::npos);
  // Bytes never wrap: the largest question that is answered is far below 2^63.
  EXPECT_NE(message(spec, {.ranks = 2, .rows = int64_t{1} << 60, .sequences = 1}).find("too many"), std::string::npos);
  for (int64_t rows = 4; message(spec, {.ranks = 4, .rows = rows, .sequences = 4}).empty(); rows *= 64) {
    const DerivedLayouts d = derive_layouts(spec, {.ranks = 4, .rows = rows, .sequences = 4});
    EXPECT_GT(d.forward_bytes, 0) << rows;
    EXPECT_LT(d.forward_bytes + d.backward_bytes, int64_t{1} << 62) << rows;
  }
}

}  // namespace
}  // namespace tern
