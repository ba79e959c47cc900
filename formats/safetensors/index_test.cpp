#include "formats/safetensors/index.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/io.h"
#include "formats/format_test_support.h"
#include "formats/safetensors/shards.h"
#include "formats/safetensors/write.h"

namespace tern {
namespace {

struct MalformedIndex {
  std::string name, json, says;
};

std::string map(std::string_view inside) { return "{\"weight_map\":{" + std::string(inside) + "}}"; }
std::string shard(std::string_view file) { return map("\"w\":\"" + std::string(file) + "\""); }

TEST(SafetensorsIndex, EachMalformedOneIsAnErrorThatSaysWhat) {
  const std::string big((1 << 20) + 1, 'x');
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "[";
  const std::vector<MalformedIndex> cases{
      {"empty", "", "i.json"},
      {"blank", "  \n", "i.json"},
      {"array", "[]", "the index is array, expected an object"},
      {"null", "null", "the index is null, expected an object"},
      {"string", "\"x\"", "the index is string, expected an object"},
      {"cut off", "{\"weight_map\":{\"w\":", "byte"},
      {"two values", "{}{}", "after the end"},
      {"deep", deep, "64"},
      {"not UTF-8", map("\"\xff\":\"model.safetensors\""), "UTF-8"},
      {"byte order mark", "\xEF\xBB\xBF{}", "byte order mark"},
      {"NaN", "{\"metadata\":{\"total_size\":NaN},\"weight_map\":{}}", "NaN"},
      {"empty object", "{}", "no weight_map"},
      {"only metadata", "{\"metadata\":{\"total_size\":1}}", "no weight_map"},
      {"map null", "{\"weight_map\":null}", "weight_map is null, expected an object"},
      {"map array", "{\"weight_map\":[]}", "weight_map is array, expected an object"},
      {"map string", "{\"weight_map\":\"model.safetensors\"}", "weight_map is string"},
      {"map number", "{\"weight_map\":7}", "weight_map is number"},
      {"map empty", map(""), "weight_map is empty"},
      {"map twice", "{\"weight_map\":{\"a\":\"m.safetensors\"},\"weight_map\":{}}", "twice"},
      {"unknown key", "{\"weights\":{},\"weight_map\":{\"a\":\"m.safetensors\"}}", "unknown key \"weights\""},
      {"misspelt key", "{\"weight_mpa\":{}}", "unknown key \"weight_mpa\""},
      {"file number", map("\"w\":1"), "\"w\" is number, expected a file name"},
      {"file null", map("\"w\":null"), "\"w\" is null, expected a file name"},
      {"file list", map("\"w\":[\"m.safetensors\"]"), "\"w\" is array"},
      {"file object", map("\"w\":{}"), "\"w\" is object"},
      {"file true", map("\"w\":true"), "\"w\" is boolean"},
      {"file empty", shard(""), "no .safetensors file"},
      {"file is the ending", shard(".safetensors"), "a hidden or parent name"},
      {"pickle", shard("pytorch_model.bin"), "no .safetensors file"},
      {"parent", shard("../model.safetensors"), "a path"},
      {"far parent", shard("../../etc/passwd"), "a path"},
      {"absolute", shard("/tmp/model.safetensors"), "a path"},
      {"sub-directory", shard("sub/model.safetensors"), "a path"},
      {"backslash", shard("..\\\\model.safetensors"), "a path"},
      {"dots", shard("..safetensors"), "a hidden or parent name"},
      {"hidden", shard(".m.safetensors"), "a hidden or parent name"},
      {"zero byte", shard("a\\u0000.safetensors"), "a name with a zero byte"},
      {"long name", shard(std::string(300, 'a') + ".safetensors"), "a name no disk can hold"},
      {"url", shard("https://x/model.safetensors"), "a path"},
      {"tensor twice", map("\"w\":\"m.safetensors\",\"w\":\"n.safetensors\""), "\"w\" appears twice"},
      {"tensor name over 1 MiB", map("\"" + big + "\":\"m.safetensors\""), "1048576"},
      {"file name over 1 MiB", shard(big), "1048576"},
      {"metadata null", "{\"metadata\":null,\"weight_map\":{\"a\":\"m.safetensors\"}}",
       "metadata is null, expected an object"},
      {"metadata list", "{\"metadata\":[],\"weight_map\":{\"a\":\"m.safetensors\"}}", "metadata is array"},
      {"size negative", "{\"metadata\":{\"total_size\":-1}}", "total_size is \"-1\", expected a number of bytes"},
      {"size string", "{\"metadata\":{\"total_size\":\"12\"}}", "total_size is \"\\\"12\\\"\""},
      {"size null", "{\"metadata\":{\"total_size\":null}}", "total_size is \"null\""},
      {"size half", "{\"metadata\":{\"total_size\":1.5}}", "total_size is \"1.5\""},
      {"size 2^64-1", "{\"metadata\":{\"total_size\":18446744073709551615}}", "total_size is"},
      {"size 1e300", "{\"metadata\":{\"total_size\":1e300}}", "total_size is"},
  };
  ASSERT_GE(cases.size(), 40u);
  for (const MalformedIndex& c : cases) {
    EXPECT_TRUE(throws(ErrorKind::bad_file, c.says, [&] { parse_safetensors_index(c.json, "i.json"); })) << c.name;
  }
}

TEST(SafetensorsIndex, SortsTheMapAndTakesAWholeFloatForTheSize) {
  const SafetensorsIndex index = parse_safetensors_index(
      R"({"metadata":{"total_size":12.0,"x":1},"weight_map":{"b":"m.safetensors","a":"n.safetensors"}})", "i");
  EXPECT_EQ(index.total_size, 12);
  EXPECT_EQ(index.weight_map,
            (std::vector<std::pair<std::string, std::string>>{{"a", "n.safetensors"}, {"b", "m.safetensors"}}));
}

/// Ten f32 tensors of 4·i bytes, "t0" … "t9".
struct Model {
  std::vector<std::vector<float>> data;
  std::vector<TensorToWrite> tensors;
  Model() {
    for (int i = 0; i < 10; ++i) data.emplace_back(static_cast<size_t>(i), static_cast<float>(i));
    for (int i = 0; i < 10; ++i)
      tensors.push_back(
          {"t" + std::to_string(i), DType::f32, {i}, std::as_bytes(std::span(data[static_cast<size_t>(i)])), {}});
  }
};

TEST(ModelWeights, ShardsHoldAllTensorsAndNoneIsAboveTheSize) {
  const Model model;
  TemporaryDirectory dir;
  const std::vector<std::string> names = write_model_weights(real_io(), dir.path(), model.tensors, 40);
  // bytes: 0+4+8+12+16 | 20 | 24 | 28 | 32 | 36
  EXPECT_EQ(names, (std::vector<std::string>{"model-00001-of-00006.safetensors", "model-00002-of-00006.safetensors",
                                             "model-00003-of-00006.safetensors", "model-00004-of-00006.safetensors",
                                             "model-00005-of-00006.safetensors", "model-00006-of-00006.safetensors",
                                             "model.safetensors.index.json"}));
  const Weights weights(dir / "model.safetensors.index.json");
  ASSERT_EQ(weights.size(), 10u);
  EXPECT_EQ(weights.data_bytes(), 4 * 45);
  EXPECT_TRUE(weights.notes().empty());
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(weights[i].name, model.tensors[i].name);
    EXPECT_TRUE(std::ranges::equal(weights.get(model.tensors[i].name).bytes, model.tensors[i].bytes)) << i;
  }
  for (const Safetensors& file : weights.files()) EXPECT_LE(file.data_bytes(), 40);
  EXPECT_TRUE(throws(ErrorKind::bad_file, "did you mean", [&] { weights.get("t10"); }));
}

TEST(ModelWeights, OneFileWhereItFitsAndTheOldShardsGo) {
  const Model model;
  TemporaryDirectory dir;
  write_model_weights(real_io(), dir.path(), model.tensors, 40);
  write_bytes(dir / "other.safetensors", "kept");
  EXPECT_EQ(write_model_weights(real_io(), dir.path(), model.tensors, 180),
            std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(real_io().list(dir.path()), (std::vector<std::string>{"model.safetensors", "other.safetensors"}));
  EXPECT_EQ(Weights(dir / "model.safetensors").size(), 10u);
  write_model_weights(real_io(), dir.path(), model.tensors, 1000);
  write_model_weights(real_io(), dir.path(), model.tensors, 100);
  EXPECT_FALSE(real_io().stat(dir / "model.safetensors"));
  EXPECT_EQ(Weights(dir / "model.safetensors.index.json").size(), 10u);
  EXPECT_TRUE(throws(ErrorKind::usage, "expected more than 0",
                     [&] { write_model_weights(real_io(), dir.path(), model.tensors, 0); }));
}

TEST(ModelWeights, WhatIndexAndShardsSayMustAgree) {
  const Model model;
  TemporaryDirectory dir;
  write_model_weights(real_io(), dir.path(), model.tensors, 100);
  const std::string path = dir / "model.safetensors.index.json", good = read_bytes(path);
  const std::string first = "model-00001-of-00002.safetensors", second = "model-00002-of-00002.safetensors";
  const auto with = [&](std::string_view from, std::string_view to, std::string_view says) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    write_bytes(path, text);
    EXPECT_TRUE(throws(ErrorKind::bad_file, says, [&] { Weights weights(path); }));
  };
  with("\"t0\": \"" + first + "\",", "", "has tensor \"t0\", which the index does not name");
  with("\"t0\": \"" + first, "\"t0\": \"" + second, "tensor \"t0\" lies in " + first + ", the index says " + second);
  with("\"t0\":", "\"extra\": \"" + first + "\", \"t0\":", "tensor \"extra\" is not in " + first);
  with(first, "gone.safetensors", "gone.safetensors not in");
  std::string text = good;
  text.replace(text.find("180"), 3, "181");
  write_bytes(path, text);
  const Weights weights(path);
  ASSERT_EQ(weights.notes().size(), 1u);
  EXPECT_NE(weights.notes()[0].find("says 181 bytes, the tensors take 180"), std::string::npos);

  write_bytes(path, good);
  std::filesystem::remove(dir / second);
  EXPECT_TRUE(throws(ErrorKind::bad_file, second + " not in", [&] { Weights w(path); }));
  write_bytes(dir / second, read_bytes(dir / first));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "files of two models mixed?", [&] { Weights w(path); }));
  write_bytes(dir / second, "12");
  EXPECT_TRUE(throws(ErrorKind::bad_file, "the file is cut short", [&] { Weights w(path); }));
}

}  // namespace
}  // namespace tern
