// The identity of what a run begins from: another start must not pass for the same run.
#include "train/inputs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/io.h"
#include "base/source_dir_testing.h"
#include "formats/data/token_data_testing.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/shards.h"
#include "formats/safetensors/write.h"

namespace tern {
namespace {

// The golden Llama in shards, and a token file for it.
struct Sharded {
  std::string path = testing::TempDir() + "tern-inputs-XXXXXX";
  TrainSettings settings;
  Sharded() {
    const std::string golden = source_dir() + "/tests/golden/models/llama";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    write_file_atomically(real_io(), path + "/config.json", real_io().read(golden + "/config.json"));
    const Weights file(golden + "/model.safetensors");
    std::vector<TensorToWrite> all;
    for (size_t i = 0; i < file.size(); ++i)
      all.push_back(
          {std::string(file[i].name), *file[i].dtype, {file[i].shape.begin(), file[i].shape.end()}, file[i].bytes, {}});
    write_model_weights(real_io(), path, all, 20'000);
    write_token_file(path + "/data.tokens", std::vector<uint16_t>(100, 3), {0, 100}, 4);
    settings.model = path;
    settings.data = path + "/data.tokens";
    settings.seq = 8;
  }
  ~Sharded() { remove_all(real_io(), path); }
  std::string identity() const {
    const TrainInputs in = load_inputs(settings);
    const Feed feed = open_feed(settings, in, settings.data, path + "/cache", {.seq = 8}, {});
    return identify(settings, in, feed).model;
  }
};

TEST(TrainInputs, AChangedShardIsAnotherModelThoughItsIndexIsTheSame) {
  const Sharded model;
  const std::string before = model.identity();
  EXPECT_EQ(model.identity(), before);
  std::string last;
  for (const std::string& name : real_io().list(model.path))
    if (name.starts_with("model-") && name.ends_with(".safetensors")) last = model.path + "/" + name;
  ASSERT_FALSE(last.empty());
  std::fstream file(last, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x41');
  file.close();
  EXPECT_NE(model.identity(), before);
}

// Its first letters are no length of a header.
TEST(TrainInputs, ATextWithoutATokenizerIsNoBrokenTokenFile) {
  Sharded model;
  model.settings.data = model.path + "/book.txt";
  write_file_atomically(real_io(), model.settings.data, "It was a bright cold day in April.\n");
  try {
    model.identity();
    ADD_FAILURE();
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(what.find("has no tokenizer to read"), std::string::npos) << what;
    EXPECT_NE(what.find("--tokenizer DIR"), std::string::npos) << what;
    EXPECT_EQ(what.find("header"), std::string::npos) << what;
  }
}

TEST(TrainInputs, AFolderWithoutATextIsNoData) {
  TrainSettings s;
  s.data = testing::TempDir() + "tern-no-data-XXXXXX";
  ASSERT_NE(::mkdtemp(s.data.data()), nullptr);
  try {
    check_data_files(s, {});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("a folder without a text"), std::string::npos) << e.what();
  }
  remove_all(real_io(), s.data);
}

// A matrix has as many directions as its shorter side is long.
TEST(TrainInputs, ARankBeyondEveryMatrixIsRefusedAndBeyondSomeIsTold) {
  Sharded model;
  const auto with_rank = [&](int64_t rank) {
    model.settings.adapter = AdapterSettings{};
    model.settings.adapter->config.targets.all_linear = true;
    model.settings.adapter->config.rank = rank;
    std::string notes;
    try {
      for (const std::string& note : load_inputs(model.settings).notes) notes += note + "\n";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return notes;
  };
  const ModelSpec spec = load_inputs(model.settings).spec;
  const AttentionSpec& attention = *attention_of(spec.units[1]);
  const int64_t narrow = attention.kv_heads * attention.head_dim, wide = attention.width;
  ASSERT_LT(narrow, wide);
  EXPECT_EQ(with_rank(narrow).find("--rank"), std::string::npos) << with_rank(narrow);
  const std::string told = with_rank(narrow + 1);
  EXPECT_NE(told.find("matrices with an adapter have fewer directions (key of '"), std::string::npos) << told;
  EXPECT_EQ(with_rank(wide).find("no matrix with an adapter"), std::string::npos) << with_rank(wide);
  EXPECT_NE(with_rank(wide + 1).find("choose at most " + std::to_string(wide)), std::string::npos)
      << with_rank(wide + 1);
}

TEST(TrainInputs, ALongerSequenceThanTheModelDeclaresNeedsASayso) {
  Sharded model;
  const int64_t declared = load_inputs(model.settings).spec.context;
  model.settings.seq = declared + 1;
  try {
    load_inputs(model.settings);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("--context " + std::to_string(declared + 1)), std::string::npos) << e.what();
  }
  model.settings.context = declared + 1;
  const TrainInputs in = load_inputs(model.settings);
  EXPECT_EQ(in.spec.context, declared + 1);
  EXPECT_EQ(in.config.max_position_embeddings, declared + 1) << "the exported model declares it";
  EXPECT_FALSE(in.notes.empty());
}

}  // namespace
}  // namespace tern
