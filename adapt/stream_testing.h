#pragma once
// For tests of streams: a folder with texts unlike each other, and a model of width 16 that was trained for a few steps.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "adapt/stream.h"
#include "base/io.h"
#include "base/source_dir_testing.h"

namespace tern {

inline const std::string kTokenizer = source_dir() + "/tests/golden/tokenizers/byte_level";

/// The settings of a task: four steps of an adapter of rank 2 on the folder's model.
inline TrainSettings small_settings(const std::string& root, const std::string& output) {
  TrainSettings s;
  s.model = root + "/base/model", s.output = root + "/" + output;
  s.seq = 8, s.batch = 4, s.micro_batch = 2, s.seed = 3;
  s.schedule = {.kind = LearningRateKind::constant,
                .peak = 1e-2,
                .minimum = 1e-2,
                .warmup_steps = 0,
                .decay_steps = 0,
                .total_steps = 4};
  s.checkpoint_every = 1, s.keep_checkpoints = 1, s.eval_batches = 2, s.log_every = 1;
  s.adapter = AdapterSettings{};
  s.adapter->config.targets.all_linear = true;
  s.adapter->config.rank = 2, s.adapter->config.alpha = 2;
  return s;
}

/// The first texts of the folder, each a task and its own test.
inline std::vector<StreamTask> small_tasks(const std::string& root, size_t count) {
  std::vector<StreamTask> tasks;
  for (size_t t = 0; t < count; ++t) {
    const std::string text = root + "/" + std::to_string(t) + ".txt";
    tasks.push_back({.name = "t" + std::to_string(t), .data = text, .test = text, .steps = {}});
  }
  return tasks;
}

/// Fills the folder with three texts, and with the model that a run with the settings `base` trains on the first text.
inline void fill_stream_folder(const std::string& root, TrainSettings base) {
  ::setenv("XDG_CACHE_HOME", root.c_str(), 1);
  const char* forms[] = {"line {} of {}\n", "{}+{}=?\n", "the {}th tern saw {} boats\n"};
  for (int t = 0; t < 3; ++t) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format(fmt::runtime(forms[t]), i, i * i % 7);
    write_file_atomically(real_io(), root + "/" + std::to_string(t) + ".txt", text);
  }
  write_file_atomically(
      real_io(), root + "/config.json",
      fmt::format(
          R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": {}, "hidden_size": 16,
 "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu"}})",
          Tokenizer::load(kTokenizer).vocab_size()));
  base.model = root + "/config.json", base.tokenizer = kTokenizer, base.from_scratch = true;
  base.data = root + "/0.txt";
  base.adapter.reset();
  train(base);
}

}  // namespace tern
