// Models in several GGUF files: read as the one file that they were, refused where a part is missing or another's.
#include "formats/gguf/parts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "formats/format_test_support.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/parts_testing.h"

namespace tern {
namespace {

GgufMetadata some_metadata() {
  GgufMetadata m;
  m.add("general.architecture", "llama");
  m.add("general.name", "parts");
  return m;
}

// Five tensors of 4 to 64 rows of 32 numbers, each another one's.
std::vector<GgufTensorToWrite> some_tensors() {
  std::vector<GgufTensorToWrite> tensors;
  for (int t = 0; t < 5; ++t) {
    const int64_t rows = int64_t{4} << t;
    tensors.push_back({.name = "t" + std::to_string(4 - t),
                       .type = t % 2 == 0 ? WeightType::f32 : WeightType::f16,
                       .shape = {rows, 32},
                       .produce = [t, rows](const FloatSink& sink) {
                         std::vector<float> values;
                         for (int64_t i = 0; i < rows * 32; ++i) values.push_back(static_cast<float>(i % 97 + 100 * t));
                         sink(values);
                       }});
  }
  return tensors;
}

TEST(GgufParts, AreReadAsTheOneFileThatTheyWere) {
  const TemporaryDirectory d;
  const auto tensors = some_tensors();
  write_gguf(real_io(), d / "one.gguf", some_metadata(), tensors);
  const Gguf one(d / "one.gguf");
  EXPECT_EQ(one.paths(), std::vector<std::string>{d / "one.gguf"});
  for (const int64_t most : {1, 3000, 5000, 9000, 1 << 20}) {
    const auto paths = write_gguf_parts(d / "m.gguf", some_metadata(), tensors, most);
    EXPECT_EQ(paths.size(), most == 1 ? 5u : most == 1 << 20 ? 1u : paths.size());
    const Gguf parts(paths[0]);
    EXPECT_EQ(parts.paths(), paths);
    EXPECT_EQ(parts.get("general.name").as_string(), "parts");
    ASSERT_EQ(parts.tensors().size(), one.tensors().size());
    for (const GgufTensor& want : one.tensors()) {
      const GgufTensor* got = parts.find_tensor(want.name);
      ASSERT_NE(got, nullptr) << want.name;
      EXPECT_EQ(got->type, want.type);
      EXPECT_TRUE(std::ranges::equal(got->bytes, want.bytes)) << want.name;
      const std::string file = read_bytes(paths[static_cast<size_t>(parts.file_of(*got))]);
      EXPECT_EQ(file.substr(static_cast<size_t>(parts.offset_of(*got)), got->bytes.size()),
                std::string(reinterpret_cast<const char*>(got->bytes.data()), got->bytes.size()));
      parts.populate(*got);
      parts.dont_need(*got);
      EXPECT_TRUE(std::ranges::equal(got->bytes, want.bytes)) << "read again";
    }
    Gguf moved = Gguf(paths[0]);
    const Gguf there = std::move(moved);
    EXPECT_TRUE(std::ranges::equal(there.find_tensor("t4")->bytes, one.find_tensor("t4")->bytes));
    for (const std::string& path : paths) std::filesystem::remove(path);
  }
}

TEST(GgufParts, NamesAreThoseOfGgufSplit) {
  EXPECT_EQ(gguf_part_path("a/model", 2, 7), "a/model-00002-of-00007.gguf");
  EXPECT_EQ(gguf_part_prefix("a/model-00002-of-00007.gguf", 2, 7), "a/model");
  EXPECT_EQ(gguf_part_prefix("a/model-00002-of-00007.gguf", 1, 7), std::nullopt);
  EXPECT_EQ(gguf_part_prefix("model.gguf", 1, 7), std::nullopt);
  EXPECT_EQ(gguf_part_prefix("-00001-of-00007.gguf", 1, 7), std::nullopt);
}

TEST(GgufParts, SayWhatIsWrong) {
  const TemporaryDirectory d;
  const auto tensors = some_tensors();
  namespace fs = std::filesystem;
  const auto fresh = [&] { return write_gguf_parts(d / "m.gguf", some_metadata(), tensors, 1); };
  const auto refused = [](const char* says, const std::string& path) {
    EXPECT_TRUE(throws(ErrorKind::bad_file, says, [&] { Gguf file(path); })) << says;
  };
  auto paths = fresh();
  fs::rename(paths[0], d / "other.gguf");
  refused("NAME-00001-of-00005.gguf", d / "other.gguf");
  paths = fresh();
  fs::remove(paths[2]);
  refused("m-00003-of-00005.gguf", paths[0]);
  paths = fresh();
  fs::copy_file(paths[1], paths[3], fs::copy_options::overwrite_existing);
  refused("split.no 1", paths[0]);
  paths = fresh();
  write_gguf_parts(d / "n.gguf", some_metadata(), std::span(tensors).first(4), 1);
  fs::copy_file(d / "n-00002-of-00004.gguf", paths[1], fs::copy_options::overwrite_existing);
  refused("split.count 4", paths[0]);
  paths = fresh();
  std::vector<GgufTensorToWrite> twice = some_tensors();
  twice[4].name = "t4";
  GgufMetadata last;
  last.add("split.no", uint16_t{4}), last.add("split.count", uint16_t{5}), last.add("split.tensors.count", int32_t{5});
  write_gguf(real_io(), paths[4], last, std::span(twice).subspan(4));
  refused("stands in two of its 5 files", paths[0]);
  write_gguf(real_io(), paths[4], last, std::span(tensors).first(0));
  refused("split.tensors.count", paths[0]);
  // Another part alone is a file like any; what reads a model says which to name (formats/gguf/config.cpp).
  EXPECT_EQ(Gguf(fresh()[1]).tensors().size(), 1u);
}

}  // namespace
}  // namespace tern
