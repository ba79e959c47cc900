// GGUF: what the format's own package wrote is read to the bit, and what we write is what it would write.
#include "formats/gguf/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/io.h"
#include "formats/format_test_support.h"
#include "formats/gguf/write.h"

namespace tern {
namespace {

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

TEST(Gguf, TypesAreKnownByTheirRowsOrBySizeOnly) {
  for (const WeightTypeRow& row : kWeightTypes) {
    const GgufTypeRow* found = gguf_type_row(row.gguf);
    ASSERT_EQ(found != nullptr, row.gguf != kNotInGguf) << row.name;
    if (!found) continue;
    EXPECT_EQ(found->weight, row.type) << row.name;
    EXPECT_EQ(found->name, row.name);
    EXPECT_EQ(found->block_bytes, row.block_bytes) << row.name;
  }
  ASSERT_NE(gguf_type_row(29), nullptr);
  EXPECT_EQ(gguf_type_row(29)->name, "IQ1_M");
  EXPECT_FALSE(gguf_type_row(29)->weight);
  EXPECT_EQ(gguf_type_row(5), nullptr);
}

TEST(Gguf, EveryKindOfMetadataIsRead) {
  const Gguf file(golden("gguf/metadata.gguf"));
  EXPECT_EQ(file.alignment(), 64u);
  EXPECT_EQ(file.get("general.architecture").as_string(), "llama");
  EXPECT_EQ(file.get("llama.context_length").as_u64(), 4096u);
  EXPECT_EQ(file.get("k.u8").as_u64(), 200u);
  EXPECT_EQ(file.get("k.i8").as_i64(), -100);
  EXPECT_EQ(file.get("k.u16").as_i64(), 60000);
  EXPECT_EQ(file.get("k.i16").as_number(), -30000.0);
  EXPECT_EQ(file.get("k.u32").as_u64(), 4000000000u);
  EXPECT_EQ(file.get("k.i32").as_i64(), -2000000000);
  EXPECT_EQ(file.get("k.u64").as_u64(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(file.get("k.i64").as_i64(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(file.get("k.f32").as_number(), 0.5);
  EXPECT_EQ(file.get("k.f64").as_number(), 1e300);
  EXPECT_TRUE(file.get("k.yes").as_bool());
  EXPECT_FALSE(file.get("k.no").as_bool());
  EXPECT_EQ(file.get("k.text").as_string(), "héllo\n");
  EXPECT_EQ(file.get("k.strings").as_strings(), (std::vector<std::string_view>{"a", "", "日本"}));
  EXPECT_EQ(file.get("k.ints").as_i64s(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(file.get("k.floats").as_numbers(), (std::vector<double>{0.5, -1}));
  EXPECT_TRUE(file.get("k.bools").elements()[0].as_bool());
  const auto nested = file.get("k.nested").elements();
  ASSERT_EQ(nested.size(), 2u);
  EXPECT_EQ(nested[0].as_i64s(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(nested[1].as_i64s(), (std::vector<int64_t>{3}));
  EXPECT_FALSE(file.find("k.other"));
  const auto refuses = [&](const char* fragment, auto&& run) { return throws(ErrorKind::bad_file, fragment, run); };
  EXPECT_TRUE(refuses("no key 'k.txt'; did you mean 'k.text'?", [&] { file.get("k.txt"); }));
  EXPECT_TRUE(refuses("key 'k.text' is of type string, an integer is needed", [&] { file.get("k.text").as_u64(); }));
  EXPECT_TRUE(refuses("an integer that is not negative", [&] { file.get("k.i8").as_u64(); }));
  EXPECT_TRUE(refuses("an integer below 2^63", [&] { file.get("k.u64").as_i64(); }));
  EXPECT_TRUE(refuses("a boolean is needed", [&] { file.get("k.u8").as_bool(); }));
  EXPECT_TRUE(refuses("key 'k.ints' is an array, a string is needed", [&] { file.get("k.ints").as_string(); }));
  EXPECT_TRUE(refuses("an array of strings is needed", [&] { file.get("k.ints").as_strings(); }));
  EXPECT_TRUE(refuses("an array of integers is needed", [&] { file.get("k.floats").as_i64s(); }));
  EXPECT_TRUE(refuses("an array is needed", [&] { file.get("k.text").elements(); }));
}

TEST(Gguf, TensorsAreViewsInRowMajorShape) {
  const Gguf file(golden("gguf/metadata.gguf"));
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.tensors()[2].shape(), (std::vector<int64_t>{1, 1, 2}));
  std::vector<float> a(6);
  ASSERT_EQ(file.tensors()[0].bytes.size(), a.size() * sizeof(float));
  std::memcpy(a.data(), file.tensors()[0].bytes.data(), file.tensors()[0].bytes.size());
  EXPECT_EQ(a, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.find_tensor("z"), nullptr);
}

TEST(Gguf, VocabulariesOfTheDataOpen) {
  const char* data = std::getenv("TERN_DATA");
  if (!data) GTEST_SKIP() << "TERN_DATA is not set";
  for (const char* name : {"gpt-2", "llama-spm", "phi-3"}) {
    const Gguf file(std::string(data) + "/tokenizers/vectors/" + name + ".gguf");
    EXPECT_GT(file.get("tokenizer.ggml.tokens").as_strings().size(), 30'000u) << name;
    EXPECT_TRUE(file.tensors().empty());
  }
}

GgufTensorToWrite tensor(const std::string& name, WeightType type, std::vector<int64_t> shape,
                         std::vector<float> values, size_t piece = 1000) {
  return {name, type, std::move(shape), [values, piece](const FloatSink& sink) {
            for (size_t i = 0; i < values.size(); i += piece)
              sink(std::span(values).subspan(i, std::min(piece, values.size() - i)));
          }};
}

TEST(GgufWrite, QuantizesToTheBitsOfTheReference) {
  const TemporaryDirectory d;
  const std::vector<float> x = floats_of(read_bytes(golden("gguf/quantize.f32")));
  const auto n = static_cast<int64_t>(x.size());
  for (const auto& [type, name] : {std::pair{WeightType::q8_0, "q8_0"},
                                   {WeightType::q5_1, "q5_1"},
                                   {WeightType::q5_0, "q5_0"},
                                   {WeightType::q4_1, "q4_1"},
                                   {WeightType::q4_0, "q4_0"},
                                   {WeightType::f16, "f16"},
                                   {WeightType::bf16, "bf16"}})
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{32}, size_t{640}}) {
      const GgufTensorToWrite t = tensor("x", type, {n / 32, 32}, x, piece);
      write_gguf(real_io(), d / "x.gguf", {}, {&t, 1});
      const Gguf file(d / "x.gguf");
      const auto got = file.tensors()[0].bytes;
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(got.data()), got.size()),
                read_bytes(golden(std::string("gguf/quantize.") + name)))
          << name << " in pieces of " << piece;
    }
}

TEST(GgufWrite, WhatIsWrittenIsRead) {
  const TemporaryDirectory d;
  GgufMetadata m;
  m.add("general.architecture", "llama");
  m.add("a.bool", true);
  m.add("a.u32", uint32_t{7});
  m.add("a.i32", int32_t{-7});
  m.add("a.u64", uint64_t{1} << 40);
  m.add("a.f32", 1e-5f);
  const std::vector<std::string> strings = {"x", "zwei é", ""};
  const std::vector<float> floats = {1, 2};
  const std::vector<int32_t> ints = {3, -4};
  m.add("a.strings", strings);
  m.add("a.floats", floats);
  m.add("a.ints", ints);
  const std::vector<GgufTensorToWrite> tensors = {tensor("one", WeightType::f32, {}, {5}),
                                                  tensor("two", WeightType::f16, {3}, {1, 2, 3}),
                                                  tensor("three", WeightType::f32, {2, 1, 2}, {1, 2, 3, 4})};
  const int64_t bytes = write_gguf(real_io(), d / "w.gguf", m, tensors);
  EXPECT_EQ(bytes, static_cast<int64_t>(std::filesystem::file_size(d / "w.gguf")));
  const Gguf file(d / "w.gguf");
  EXPECT_EQ(file.get("a.u64").as_u64(), uint64_t{1} << 40);
  EXPECT_EQ(file.get("a.strings").as_strings()[1], "zwei é");
  EXPECT_EQ(file.get("a.ints").as_i64s(), (std::vector<int64_t>{3, -4}));
  EXPECT_EQ(file.get("a.f32").as_number(), static_cast<double>(1e-5f));
  EXPECT_EQ(file.find_tensor("three")->shape(), (std::vector<int64_t>{2, 1, 2}));
  EXPECT_EQ(file.find_tensor("one")->rank, 0);
  write_gguf(real_io(), d / "again.gguf", m, tensors);
  EXPECT_EQ(read_bytes(d / "w.gguf"), read_bytes(d / "again.gguf"));
  const std::string keep = std::getenv("TERN_KEEP") ? std::getenv("TERN_KEEP") : "";
  if (!keep.empty()) std::filesystem::copy_file(d / "w.gguf", keep, std::filesystem::copy_options::overwrite_existing);
}

TEST(GgufWrite, MisuseIsNamedAndLeavesNoFile) {
  const TemporaryDirectory d;
  const auto refuses = [&](GgufTensorToWrite t, const char* fragment, ErrorKind kind = ErrorKind::usage) {
    const auto result = throws(kind, fragment, [&] { write_gguf(real_io(), d / "f.gguf", {}, {&t, 1}); });
    EXPECT_TRUE(std::filesystem::is_empty(d.path()));
    return result;
  };
  EXPECT_TRUE(refuses(tensor("", WeightType::f32, {1}, {1}), "a name of 0 bytes"));
  EXPECT_TRUE(refuses(tensor(std::string(65, 'x'), WeightType::f32, {1}, {1}), "a name of 65 bytes"));
  EXPECT_TRUE(
      refuses(tensor("t", WeightType::q6_k, {256}, {}), "tern writes F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0"));
  EXPECT_TRUE(refuses(tensor("t", WeightType::f32, {1, 1, 1, 1, 1}, {1}), "5 dimensions"));
  EXPECT_TRUE(refuses(tensor("t", WeightType::f32, {2, 0}, {}), "shape [2, 0]"));
  EXPECT_TRUE(refuses(tensor("t", WeightType::q8_0, {2, 33}, {}), "rows of 33 elements"));
  EXPECT_TRUE(refuses(tensor("t", WeightType::f32, {3}, {1, 2}), "the producer gave 2 values, its shape takes 3"));
  EXPECT_TRUE(refuses(tensor("t", WeightType::f32, {3}, {1, 2, 3, 4}), "at least 4 values"));
  EXPECT_TRUE(
      refuses(tensor("t", WeightType::q8_0, {32}, std::vector<float>(32, NAN)), "holds nan", ErrorKind::bad_file));
  EXPECT_TRUE(refuses(tensor("t", WeightType::q8_0, {32}, std::vector<float>(32, 1e30f)), "beyond Q8_0's range",
                      ErrorKind::bad_file));
  const std::vector<GgufTensorToWrite> twice = {tensor("t", WeightType::f32, {1}, {1}),
                                                tensor("t", WeightType::f32, {1}, {1})};
  EXPECT_TRUE(throws(ErrorKind::usage, "given twice", [&] { write_gguf(real_io(), d / "f.gguf", {}, twice); }));
  GgufMetadata m;
  m.add("k", "v");
  EXPECT_TRUE(throws(ErrorKind::usage, "key 'k' is given twice", [&] { m.add("k", "w"); }));
  EXPECT_TRUE(throws(ErrorKind::usage, "no printable ASCII", [&] { m.add("a b", "w"); }));
  EXPECT_TRUE(throws(ErrorKind::usage, "not UTF-8", [&] { m.add("u", "\xff"); }));
  EXPECT_TRUE(throws(ErrorKind::usage, "at most 1 MiB", [&] { m.add("l", std::string((1 << 20) + 1, 'x')); }));
}

TEST(GgufWrite, CodedBytesAreWrittenAsTheyAre) {
  const TemporaryDirectory dir;
  const std::string path = dir / "coded.gguf";
  std::vector<std::byte> blocks(2 * 210);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(7 * i);
  GgufTensorToWrite t{"t", WeightType::q6_k, {2, 256}, {}, blocks};
  write_gguf(real_io(), path, {}, std::span(&t, 1));
  const Gguf file(path);
  ASSERT_EQ(file.tensors().size(), 1u);
  EXPECT_EQ(file.tensors()[0].type->weight, WeightType::q6_k);
  EXPECT_TRUE(std::ranges::equal(file.tensors()[0].bytes, blocks));
  const auto refused = [&](const char* why) {
    return throws(ErrorKind::usage, why, [&] { write_gguf(real_io(), path, {}, std::span(&t, 1)); });
  };
  t.shape = {3, 256};
  EXPECT_TRUE(refused("420 coded bytes, its shape takes 630"));
  t = {"t", WeightType::u4, {1, 64}, {}, std::span(blocks).first(40)};
  EXPECT_TRUE(refused("U4 is no type of GGUF's"));
}

}  // namespace
}  // namespace tern
