#include "model/unit_reader.h"

#include "base/io.h"

#include "model/model_files.h"
#include "model/model_testing.h"

namespace tern {
namespace {

// Every shape of a model: a pass over lent units has the bits of a pass over all weights, and holds one unit.
TEST(UnitReader, LendsTheWeightsThatLoadingGivesOneUnitAtATime) {
  for (const std::string family : {"llama", "gpt2", "gpt_neox", "falcon", "gemma2", "mixtral", "deepseek_v3"}) {
    SCOPED_TRACE(family);
    const HfConfig config = tiny_config(family);
    const ModelSpec spec = model_spec(config);
    Arena arena;
    const Compute c{arena, Multiply::exact};
    const std::string dir = testing::TempDir() + "tern-unit-reader-" + family;
    save_model(spec, config, random_weights(spec, DType::f32, arena, 5), DType::f32, dir, real_io(), 1 << 20);
    const ModelWeights whole = load_weights(spec, dir, DType::f32, arena);
    const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
    const RopeTable rope = spec.turns() ? rope_table(spec, 16, 16) : RopeTable{};
    const Rows rows = make_rows(tokens, {0, 9}, spec.turns() ? &rope : nullptr);
    const std::vector<int32_t> wanted{0, 8};
    const Tensor want = head_logits(spec, whole, model_forward(spec, whole, rows, nullptr, c), wanted, c);
    const int64_t before = arena.current()[static_cast<size_t>(MemoryClass::weights)];
    UnitReader reader(spec, dir, arena);
    const Tensor got = head_logits(spec, reader, model_forward(spec, reader, rows, nullptr, c), wanted, c);
    EXPECT_TRUE(same_bits(got, want));
    EXPECT_LE(arena.current()[static_cast<size_t>(MemoryClass::weights)] - before, UnitReader::peak_bytes(spec));
  }
}

}  // namespace
}  // namespace tern
