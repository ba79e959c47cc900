// Directories of coded matrices: what is written is read to the bit, the logits of matrices that stay coded are those of their
// numbers under every set, bytes are the closed form, and what is wrong with a file is named.
#include <algorithm>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/threads_testing.h"
#include "formats/format_test_support.h"
#include "formats/mutations_testing.h"
#include "formats/safetensors/write.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/dispatch.h"
#include "model/changed_weights_testing.h"
#include "model/check_weights.h"
#include "model/coded_model_testing.h"
#include "model/coded_tensors.h"
#include "model/file_bands.h"
#include "model/model_files.h"
#include "model/not_finite.h"
#include "model/read_parameter.h"
#include "model/save_coded.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

constexpr WeightType kOwn[] = {WeightType::u4,  WeightType::u3,  WeightType::u2,    WeightType::lc4, WeightType::lc3,
                               WeightType::lc2, WeightType::nf4, WeightType::nf4_1, WeightType::q4_k};

struct Written {
  HfConfig config;
  ModelSpec spec;
  std::string dir;
  CodedSaved saved;

  Written(const TemporaryDirectory& in, const std::string& family, WeightType type, bool tied = false,
          const std::map<std::string, WeightType>& single = {})
      : config(coded_config(family, tied)),
        spec(model_spec(config)),
        dir(in / (family + std::string(name_of(type)) + (tied ? "tied" : ""))),
        saved(write_coded_directory(config, type, dir, single)) {}
};

TEST(CodedDirectory, LogitsAreThoseOfDecodedWeightsUnderEverySet) {
  const TemporaryDirectory dir;
  const Isa before = active_isa();
  for (const WeightType type : kOwn) {
    const Written w(dir, "llama", type, type == WeightType::lc4);
    const std::vector<int32_t> tokens = random_tokens(11, w.spec.vocab, 5);
    for (const Isa isa : available_isas()) {
      force_isa(isa);
      SCOPED_TRACE(std::string(name_of(type)) + " " + std::string(name_of(isa)));
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Arena arena;
        const Compute c{arena};
        const ModelWeights decoded = load_weights_to_infer(w.spec, w.dir, dtype, arena, WeightsIn::own_memory);
        const ModelWeights coded = load_weights_to_infer(w.spec, w.dir, dtype, arena, WeightsIn::coded_file);
        EXPECT_EQ(std::holds_alternative<CodedWeight>(std::get<AttentionWeights>(coded.units[1]).qkv.weight),
                  multiplies_coded(dtype));
        EXPECT_TRUE(same_bits(logits_of(w.spec, coded, tokens, c), logits_of(w.spec, decoded, tokens, c)));
      }
    }
  }
  force_isa(before);
}

TEST(CodedDirectory, EveryFamilysRowsComeToTheirPlaceAndBytesAreTheClosedForm) {
  const TemporaryDirectory dir;
  for (const char* family :
       {"llama", "gpt2", "gpt_neox", "deepseek_v2"})  // as they are; transposed elsewhere; heads apart; rows apart
    for (const WeightType type : {WeightType::u3, WeightType::lc2}) {
      SCOPED_TRACE(std::string(family) + " " + std::string(name_of(type)));
      const Written w(dir, family, type, std::string(family) == "gpt2");
      Arena arena;
      ModelWeights got = load_weights(w.spec, w.dir, DType::f32, arena);
      int64_t bytes = 0, matrices = 0;
      for_each_parameter(w.spec, got, [&](const ParameterInfo& info, Tensor& t) {
        if (!has_codes(w.spec, info) || !fills_blocks(type, info.shape[1])) return;
        ++matrices;
        const CodedMatrix coded = random_codes(info, type);
        const std::vector<TablePart> parts = table_parts(info);
        const int64_t in = info.shape[1], row_bytes = stored_bytes(type, 1, in);
        bytes += stored_bytes(type, info.shape[0], in) + static_cast<int64_t>(parts.size()) * table_bytes(type);
        for (size_t i = 0; i < parts.size(); ++i) {
          const int64_t rows = parts[i].row_end - parts[i].row_begin;
          std::vector<float> want(static_cast<size_t>(rows * in));
          std::vector<int32_t> ids(static_cast<size_t>(rows));
          std::iota(ids.begin(), ids.end(), 0);
          const CodedRows piece{
              type, reinterpret_cast<const uint8_t*>(coded.rows.data()) + parts[i].row_begin * row_bytes, rows, 0,
              coded.tables.empty() ? nullptr : coded.tables.data() + static_cast<int64_t>(i) * table_bytes(type)};
          gather_coded_rows<float>(piece, in, ids, want);
          EXPECT_TRUE(std::ranges::equal(
              t.span<float>().subspan(static_cast<size_t>(parts[i].row_begin * in), want.size()), want))
              << info.name;
        }
      });
      EXPECT_GE(matrices, 4);
      const ParameterInfo table = parameters(w.spec).front();
      bytes += stored_bytes(WeightType::q8_0, table.shape[0], table.shape[1]) * (w.spec.head().tied ? 1 : 2);
      EXPECT_EQ(w.saved.matrix_bytes, bytes);
      const Weights file(w.dir + "/model.safetensors");
      int64_t in_file = 0;
      for (size_t i = 0; i < file.size(); ++i)
        if (file[i].dtype == DType::u8 || file[i].dtype == DType::i8)
          in_file += static_cast<int64_t>(file[i].bytes.size());
      EXPECT_EQ(in_file, bytes);
      const WeightsCheck check = check_weights(w.spec, w.dir + "/model.safetensors");
      EXPECT_TRUE(check.problems.empty()) << (check.problems.empty() ? "" : check.problems.front());
      EXPECT_EQ(check.dtypes.count(std::string(name_of(type))), 1u);
    }
}

// Matrices of one model in types of their own: as many bytes as foretold, and each its own codes.
TEST(CodedDirectory, MatricesMayHaveTypesOfTheirOwn) {
  const TemporaryDirectory dir;
  const std::vector<WeightType> types = {WeightType::lc2, WeightType::q5_1, WeightType::lc4, WeightType::q8_0};
  for (const char* family : {"llama", "gpt2", "gpt_neox", "deepseek_v2"}) {
    SCOPED_TRACE(family);
    const ModelSpec spec = model_spec(coded_config(family, false));
    std::map<std::string, WeightType> single;
    for (const ParameterInfo& info : parameters(spec))
      if (has_codes(spec, info)) single[info.name] = types[single.size() % types.size()];
    const Written w(dir, family, WeightType::lc3, false, single);
    EXPECT_EQ(w.saved.tensor_bytes, coded_model_bytes(w.spec, {WeightType::lc3, WeightType::q8_0, single}, DType::f32));
    const Weights file(w.dir + "/model.safetensors");
    int64_t in_file = 0;
    for (size_t i = 0; i < file.size(); ++i) in_file += static_cast<int64_t>(file[i].bytes.size());
    EXPECT_EQ(in_file, w.saved.tensor_bytes);
    const WeightsCheck check = check_weights(w.spec, w.dir + "/model.safetensors");
    EXPECT_TRUE(check.problems.empty()) << (check.problems.empty() ? "" : check.problems.front());
    for (const WeightType type : types) EXPECT_EQ(check.dtypes.count(std::string(name_of(type))), 1u) << name_of(type);
    EXPECT_EQ(check.dtypes.count("LC3"), 0u);
    Arena arena;
    const Compute c{arena};
    const std::vector<int32_t> tokens = random_tokens(11, w.spec.vocab, 5);
    EXPECT_TRUE(same_bits(
        logits_of(w.spec, load_weights_to_infer(w.spec, w.dir, DType::f32, arena, WeightsIn::own_memory), tokens, c),
        logits_of(w.spec, load_weights_to_infer(w.spec, w.dir, DType::f32, arena, WeightsIn::coded_file), tokens, c)));
  }
}

TEST(CodedDirectory, WhatStaysCodedCountsItsRowsBytes) {
  const TemporaryDirectory dir;
  const Written w(dir, "llama", WeightType::lc3);
  int64_t coded = 0, vectors = 0;
  for (const auto& [name, bytes] : coded_bytes(w.spec, w.dir, DType::f32)) coded += bytes;
  for (const ParameterInfo& info : parameters(w.spec))
    if (info.shape.rank == 1) vectors += 4 * info.shape.count();
  Arena arena;
  const ModelWeights weights = load_weights_to_infer(w.spec, w.dir, DType::f32, arena, WeightsIn::coded_file);
  EXPECT_EQ(arena.current_total(), coded + vectors);
  EXPECT_EQ(arena.peak_total(), coded + vectors);
  EXPECT_TRUE(holds_coded(w.spec, w.dir));
  const FileBands bands = file_bands(w.spec, w.dir, DType::f32, {.most = 4096, .least = 0});
  int64_t streamed = 0;
  for (const FileMatrix& m : bands.matrices)
    for (const FileBand& band : m.bands) streamed += band.extent.bytes;
  EXPECT_EQ(streamed + bands.table.extent.bytes, coded);
}

TensorToWrite& named(std::vector<TensorToWrite>& tensors, const std::string& name) {
  return *std::ranges::find(tensors, name, &TensorToWrite::name);
}

TEST(CodedDirectory, WhatIsWrongWithAFileIsNamed) {
  const TemporaryDirectory dir;
  const std::string down = "model.layers.0.mlp.down_proj.weight";
  const auto refuses = [&](const char* words, const std::function<void(std::vector<TensorToWrite>&)>& change) {
    const Written w(dir, "llama", WeightType::lc3);
    rewrite_weights(w.dir, change);
    EXPECT_TRUE(throws(ErrorKind::bad_file, words, [&] {
      Arena arena;
      load_weights(w.spec, w.dir, DType::f32, arena);
    }));
    EXPECT_FALSE(check_weights(w.spec, w.dir + "/model.safetensors").problems.empty()) << words;
  };
  refuses("down_proj.weight.levels' is missing", [&](auto& t) { named(t, down + ".levels").name = "other"; });
  refuses("an earlier form", [&](auto& t) { named(t, down + ".levels").name = down + ".tables"; });
  refuses("imply I8 (4, 8)", [&](auto& t) { named(t, down + ".levels").shape = {8, 4}; });
  refuses("imply U8", [&](auto& t) { named(t, down + ".lc3").name = down + ".lc4"; });
  refuses("belongs to no parameter", [&](auto& t) {
    static const std::vector<std::byte> zeros(256 * 256 * 4);
    t.push_back({down, DType::f32, {256, 256}, zeros, {}});
  });
  refuses("is missing", [&](auto& t) { named(t, down + ".lc3").name = down + ".lc5"; });
}

TEST(CodedDirectoryMutationsSlow, AnyFileIsNumbersOrAnError) {
  const TemporaryDirectory dir;
  const std::string path = dir / "m.safetensors";
  const ModelSpec spec = model_spec(tiny_config("llama"));
  std::vector<ParameterInfo> infos;
  std::vector<CodedMatrix> coded;
  std::vector<TensorToWrite> tensors;
  for (const WeightType type : {WeightType::u2, WeightType::u3, WeightType::u4, WeightType::lc2, WeightType::lc3,
                                WeightType::lc4, WeightType::nf4, WeightType::q8_0}) {
    const std::string name = "m." + lower_name(type);
    infos.push_back({name, {6, 64}, 1, true, false, 0, {{name, 0, 6, false, 0, 6}}});
    coded.push_back(random_codes(infos.back(), type));
    const auto row_bytes = stored_bytes(type, 1, 64);
    tensors.push_back({name + "." + lower_name(type), DType::u8, {6, row_bytes}, {}, {}});
    if (table_bytes(type) > 0) tensors.push_back({name + ".levels", DType::i8, {4, row_of(type).levels}, {}, {}});
  }
  for (size_t i = 0, at = 0; i < coded.size(); ++i) {
    tensors[at++].bytes = coded[i].rows;
    if (!coded[i].tables.empty()) tensors[at++].bytes = std::as_bytes(std::span(coded[i].tables));
  }
  write_safetensors(real_io(), path, tensors);
  const std::string seed = real_io().read(path);
  survive_mutations({seed}, [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const Weights file(path);
    std::vector<float> numbers(6 * 64);
    for (const ParameterInfo& info : infos) {
      const auto found = find_coded(spec, file, info, info.fragments.front());
      if (!found) throw Error(ErrorKind::bad_file, "{}: no {}", path, info.name);
      decode_fragment(*found, info, info.fragments.front(), numbers.data());
    }
  });
}

}  // namespace
}  // namespace tern
