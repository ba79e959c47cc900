#pragma once
// For tests: small runs on ranks that are threads of this process.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>

#include "base/memory_io.h"
#include "base/source_dir_testing.h"
#include "base/threads_testing.h"
#include "comm/decorators.h"
#include "comm/thread_world.h"
#include "formats/tokenizer/tokenizer.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace tern {

inline const std::string kTokenizer = source_dir() + "/tests/golden/tokenizers/byte_level";

// A small Llama's config.json in `directory`.
inline void write_tiny_config(const std::string& directory, int layers, bool tied, int heads = 2, int kv_heads = 1) {
  write_file_atomically(
      real_io(), directory + "/config.json",
      fmt::format(
          R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": {}, "hidden_size": 16,
 "intermediate_size": 24, "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": {}, "hidden_act": "silu"}})",
          Tokenizer::load(kTokenizer).vocab_size(), layers, heads, kv_heads, tied));
}

// Six steps of the model in `directory` on a file of text.
inline TrainSettings tiny_run(const std::string& directory, const std::string& data) {
  TrainSettings s;
  s.model = directory + "/config.json", s.tokenizer = kTokenizer, s.output = "run";
  s.data = s.valid_data = data;
  s.from_scratch = true, s.seed = 3;
  s.seq = 8, s.batch = 8, s.micro_batch = 1;
  s.schedule = {.kind = LearningRateKind::cosine,
                .peak = 1e-2,
                .minimum = 1e-3,
                .warmup_steps = 1,
                .decay_steps = 0,
                .total_steps = 6};
  s.checkpoint_every = 2, s.keep_checkpoints = 1, s.eval_every = 3, s.eval_batches = 1, s.log_every = 1;
  return s;
}

// What the runs read, and the cache of the machine's peak.
struct RunInputs {
  std::string path = testing::TempDir() + "tern-ranks-XXXXXX";
  explicit RunInputs(bool tied, int layers = 2, int heads = 2, int kv_heads = 1) {
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    ::setenv("XDG_CACHE_HOME", path.c_str(), 1);
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("line {} of {}\n", i, i * i % 7);
    write_file_atomically(real_io(), path + "/text.txt", text);
    write_tiny_config(path, layers, tied, heads, kv_heads);
  }
  ~RunInputs() { remove_all(real_io(), path); }
  RunInputs(const RunInputs&) = delete;
};

inline TrainSettings settings_of(const RunInputs& inputs, DType dtype) {
  TrainSettings s = tiny_run(inputs.path, inputs.path + "/text.txt");
  s.sum_order.groups = 4;
  s.dtype = dtype;
  return s;
}

// Makes another transport of a rank's.
using Wrap = std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)>;

// Counts what a rank sends.
class CountingTransport final : public TransportDecorator {
 public:
  CountingTransport(std::unique_ptr<Transport> inner, std::atomic<int64_t>& sends)
      : TransportDecorator(std::move(inner)), sends_(sends) {}
  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    ++sends_;
    inner_->send(to, tag, bytes);
  }

 private:
  std::atomic<int64_t>& sends_;
};
inline Wrap counts_sends_of(int rank, std::atomic<int64_t>& sends) {
  return [rank, &sends](std::unique_ptr<Transport> t) -> std::unique_ptr<Transport> {
    if (t->rank() != rank) return t;
    return std::make_unique<CountingTransport>(std::move(t), sends);
  };
}
inline Wrap kills(int rank, int64_t at_send) {
  return [rank, at_send](std::unique_ptr<Transport> t) {
    return t->rank() == rank ? faulty(std::move(t), {TransportFaultKind::kill, at_send}) : std::move(t);
  };
}

// Trains on `ranks` threads and returns rank 0's result. Only the last rank sees the stop. `wrap` changes each rank's transport.
inline TrainResult train_on(TrainSettings s, int ranks, Io& io, const TrainHooks& hooks = {},
                            const std::atomic<bool>& stop_of_last = kNeverStops, const Wrap& wrap = {}) {
  s.ranks = ranks;
  TrainResult result;
  run_ranks(ranks, {}, [&](std::unique_ptr<Transport> transport) {
    with_threads(1, [&] {
      const int rank = transport->rank();
      const bool last = rank == ranks - 1;
      if (wrap) transport = wrap(std::move(transport));
      TrainResult own =
          train(s, rank == 0 ? hooks : TrainHooks{}, io,
                {.world = std::make_shared<Comm>(std::move(transport)), .stop = last ? stop_of_last : kNeverStops});
      if (rank == 0) result = std::move(own);
    });
  });
  return result;
}

// The bytes of the model and of rank 0's checkpoint.
inline std::string bits_of(const TrainResult& r, Io& io) {
  return io.read(r.model + "/model.safetensors") + io.read(r.checkpoint + "/" + rank_file(0));
}

}  // namespace tern
