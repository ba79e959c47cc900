// Vectors of texts: sentence-transformers' on a tiny BERT, the same bits in every company, NumPy's file.
#include "infer/embedding.h"

#include <gtest/gtest.h>

#include <omp.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "formats/format_test_support.h"
#include "formats/tokenizer/tokenizer.h"
#include "infer/embedding_fit.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/npy.h"
#include "model/golden_weights_testing.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

const std::string kGolden = source_dir() + "/tests/golden/";

// The directory of the golden model, with its tokenizer.
struct Bert {
  Json golden = read_json_file(kGolden + "embeddings/bert.json");
  std::string dir = testing::TempDir() + "tern-embed-XXXXXX";
  Bert() {
    EXPECT_NE(::mkdtemp(dir.data()), nullptr);
    write_golden_model(golden, dir);
    write_file_atomically(real_io(), dir + "/tokenizer.json",
                          real_io().read(kGolden + "tokenizers/families/bert_uncased.json"));
  }
  ~Bert() { remove_all(real_io(), dir); }
  Bert(const Bert&) = delete;
  std::vector<std::vector<int32_t>> ids() const { return golden["ids"].get<std::vector<std::vector<int32_t>>>(); }
};

void expect_vectors(std::span<const float> got, const Json& want) {
  const size_t width = want[0].size();
  ASSERT_EQ(got.size(), want.size() * width);
  for (size_t i = 0; i < want.size(); ++i) {
    double difference = 0, norm = 0;
    for (size_t k = 0; k < width; ++k) {
      const double w = want[i][k].get<double>();
      difference += std::pow(got[i * width + k] - w, 2), norm += w * w;
    }
    EXPECT_LE(std::sqrt(difference / norm), 1e-5) << "text " << i;
  }
}

std::vector<float> all_vectors(const ModelSpec& spec, const ModelWeights& weights, const Linear* pooler,
                               std::span<const std::vector<int32_t>> texts, const EmbeddingSettings& settings,
                               Arena& arena) {
  std::vector<float> all;
  embed_texts(spec, weights, pooler, texts, settings, arena, [&](int64_t first, std::span<const float> vectors) {
    EXPECT_EQ(static_cast<int64_t>(all.size()), first * spec.width);
    all.insert(all.end(), vectors.begin(), vectors.end());
    return true;
  });
  return all;
}

TEST(Embedding, EveryPoolingIsTheReferences) {
  const Bert bert;
  const ModelDescription model = describe_model(bert.dir, DType::f32);
  ASSERT_FALSE(model.spec.predicts);
  const auto ids = bert.ids();
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(model.tokenizer->encode(bert.golden["texts"][i].get<std::string>()), ids[i]);
  Arena arena;
  const ModelWeights weights = load_for_inference(model, arena);
  for (const Json& wanted : bert.golden["cases"]) {
    SCOPED_TRACE(wanted["pooling"].get<std::string>());
    std::filesystem::create_directories(bert.dir + "/1_Pooling");
    write_file_atomically(real_io(), bert.dir + "/modules.json", wanted["modules"].dump());
    write_file_atomically(real_io(), bert.dir + "/1_Pooling/config.json", wanted["pooling_config"].dump());
    const SentenceConfig said = read_sentence_config(bert.dir).value();
    EXPECT_EQ(name_of(said.pooling), wanted["pooling"].get<std::string>());
    EXPECT_EQ(said.normalize, wanted["normalize"].get<bool>());
    expect_vectors(all_vectors(model.spec, weights, nullptr, ids,
                               {.pooling = said.pooling, .normalize = said.normalize, .batch = 3}, arena),
                   wanted["vectors"]);
  }
  const Linear pooler = load_pooler(model.spec, bert.dir, DType::f32, arena);
  expect_vectors(all_vectors(model.spec, weights, &pooler, ids, {.pooling = Pooling::pooler, .batch = 5}, arena),
                 bert.golden["pooler"]);
}

Linear random_pooler(int64_t width, DType dtype, Arena& arena) {
  Linear pooler{.out = width, .in = width};
  pooler.weight = DenseWeight{arena.allocate(dtype, {width, width}, MemoryClass::weights)};
  pooler.bias = arena.allocate(dtype, {width}, MemoryClass::weights);
  fill_normal(dense_rows(pooler), 0.3, 7);
  fill_normal(pooler.bias, 0.3, 8);
  return pooler;
}

// Of BERT, and of a decoder whose rotary table depends on the length of a text.
TEST(Embedding, ATextHasTheSameBitsInEveryBatchAndThreadCount) {
  HfConfig dynamic = tiny_config("llama");
  dynamic.rope.type = RopeType::dynamic, dynamic.rope.factor = 4, dynamic.max_position_embeddings = 6;
  const int threads = omp_get_max_threads();
  for (const HfConfig& config : {tiny_config("bert"), tiny_config("llama"), dynamic}) {
    SCOPED_TRACE(config.model_type);
    const ModelSpec spec = model_spec(config);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Arena arena;
      ModelWeights weights = random_weights(spec, dtype, arena, 5);
      pack_weights(spec, weights, arena);
      std::vector<std::vector<int32_t>> texts;
      for (uint64_t i = 0; i < 9; ++i)
        texts.push_back(random_tokens(1 + static_cast<int64_t>(i * 7 % 19), spec.vocab, 40 + i));
      const Linear matrix = random_pooler(spec.width, dtype, arena);
      for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last, Pooling::max, Pooling::mean_sqrt,
                                    Pooling::weighted_mean, Pooling::pooler}) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << name_of(pooling));
        const Linear* const pooler = pooling == Pooling::pooler ? &matrix : nullptr;
        const auto all = [&](int64_t batch) {
          return all_vectors(spec, weights, pooler, texts, {.pooling = pooling, .normalize = true, .batch = batch},
                             arena);
        };
        omp_set_num_threads(1);
        const std::vector<float> alone = all(1);
        omp_set_num_threads(2);
        for (const int64_t batch : {2, 4, 100}) {
          const std::vector<float> together = all(batch);
          ASSERT_EQ(alone.size(), together.size());
          EXPECT_EQ(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)), 0) << batch;
        }
      }
    }
  }
  omp_set_num_threads(threads);
}

// A search among all that wait for each that leaves would take minutes here.
TEST(Embedder, ManyTextsLeaveAtOnce) {
  const ModelSpec spec = model_spec(tiny_config("bert"));
  Arena arena;
  const ModelWeights weights = random_weights(spec, DType::f32, arena, 5);
  Embedder embedder(spec, weights, nullptr, 8, {.pooling = Pooling::mean, .batch = 2}, arena);
  constexpr uint64_t kTexts = 300'000;
  for (uint64_t i = 0; i < kTexts; ++i) embedder.submit({1, 2});
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = kTexts; i > 0; --i) ASSERT_TRUE(embedder.cancel(i - 1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_TRUE(embedder.idle());
}

// Texts come between steps, one leaves, one holds a token that makes its vector no number.
TEST(Embedder, ATextHasItsVectorWhoeverJoinsLeavesOrFails) {
  const ModelSpec spec = model_spec(tiny_config("bert"));
  Arena arena;
  ModelWeights weights = random_weights(spec, DType::f32, arena, 5);
  embed_of(weights).tokens.span<float>()[static_cast<size_t>(3 * spec.width)] = std::numeric_limits<float>::infinity();
  pack_weights(spec, weights, arena);
  const EmbeddingSettings settings{.pooling = Pooling::mean, .batch = 2};
  Embedder embedder(spec, weights, nullptr, 8, settings, arena);
  EXPECT_TRUE(throws(ErrorKind::usage, "a text has 9 tokens, expected 1 to 8",
                     [&] { embedder.submit(std::vector<int32_t>(9, 1)); }));
  EXPECT_TRUE(throws(ErrorKind::usage, "a text has 0 tokens", [&] { embedder.submit({}); }));
  const std::vector<std::vector<int32_t>> texts = {{1, 2}, {2, 3}, {5, 6, 7}, {8}, {9, 10}};
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(embedder.submit(texts[i]), i);
  std::vector<EmbeddingEvent> events = embedder.step();
  for (size_t i = 3; i < 5; ++i) EXPECT_EQ(embedder.submit(texts[i]), i);
  EXPECT_TRUE(embedder.cancel(3));
  EXPECT_FALSE(embedder.cancel(0));
  while (!embedder.idle())
    for (EmbeddingEvent& event : embedder.step()) events.push_back(std::move(event));
  std::vector<uint64_t> order;
  for (const EmbeddingEvent& event : events) {
    order.push_back(event.text);
    EXPECT_EQ(event.error != nullptr, event.text == 1);
    if (event.error) continue;
    EXPECT_EQ(event.vector, all_vectors(spec, weights, nullptr, {&texts[event.text], 1}, {.batch = 1}, arena));
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 1, 2, 4}));
}

TEST(Embedding, WhatDoesNotFitIsRefusedWithWhatWould) {
  const ModelSpec spec = model_spec(tiny_config("bert"));
  const std::vector<std::vector<int32_t>> texts(64, std::vector<int32_t>(100, 3));
  const EmbeddingSettings settings{.batch = 64};
  check_embedding_fit(spec, DType::f32, texts, settings, 0, {1 << 30, "a test"});
  const auto refusal = [&](const MemoryBudget& budget, int64_t kept) -> std::string {
    try {
      check_embedding_fit(spec, DType::f32, texts, settings, kept, budget);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::does_not_fit);
      return error.what();
    }
    return "it fits";
  };
  EXPECT_NE(refusal({1 << 20, "a test"}, 0).find("--batch 1"), std::string::npos);
  EXPECT_EQ(refusal({1 << 20, "a test"}, 0).find("--memory"), std::string::npos);
  EXPECT_NE(refusal({1 << 20, "--memory", 5 << 20}, 0).find("--memory "), std::string::npos);
  EXPECT_NE(refusal({1 << 30, "a test"}, 1 << 30).find("vectors 1.0"), std::string::npos);
}

// Of a decoder with a table of its own for each text the batch is one text, and is priced so.
TEST(Embedding, ThePriceCoversWhatRunsAndNotMuchMore) {
  HfConfig dynamic = tiny_config("llama");
  dynamic.rope.type = RopeType::dynamic, dynamic.rope.factor = 4, dynamic.max_position_embeddings = 6;
  for (const HfConfig& config : {tiny_config("bert"), tiny_config("llama"), dynamic})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Pooling pooling : {Pooling::mean, Pooling::max, Pooling::pooler}) {
        const ModelSpec spec = model_spec(config);
        if (spec.predicts && pooling == Pooling::pooler) continue;
        SCOPED_TRACE(fmt::format("{} {} {}", config.model_type, name_of(dtype), name_of(pooling)));
        Arena arena;
        ModelWeights weights = random_weights(spec, dtype, arena, 5);
        pack_weights(spec, weights, arena);
        Linear pooler{.out = spec.width, .in = spec.width};
        if (pooling == Pooling::pooler) {
          pooler.weight = DenseWeight{arena.allocate(dtype, {spec.width, spec.width}, MemoryClass::weights)};
          pooler.bias = arena.allocate(dtype, {spec.width}, MemoryClass::weights);
          dense_rows(pooler).fill_zero(), pooler.bias.fill_zero();
        }
        const std::vector<std::vector<int32_t>> texts(48, random_tokens(24, spec.vocab, 7));
        const EmbeddingSettings settings{.pooling = pooling, .batch = 48};
        const int64_t before = arena.current_total();
        const PeakScope scope(arena);
        all_vectors(spec, weights, pooling == Pooling::pooler ? &pooler : nullptr, texts, settings, arena);
        const int64_t peak = scope.peak().total, ran = peak - before;
        const int64_t priced = embedding_peak(spec, dtype, texts, settings);
        EXPECT_LE(peak, priced);
        EXPECT_LE(priced, before + 4 * ran + (1 << 16));
        if (pooling == Pooling::pooler) {
          EXPECT_GE(priced - embedding_peak(spec, dtype, texts, {.batch = 48}),
                    (spec.width * spec.width + spec.width) * size_of(dtype));
        }
      }
}

// One weight is infinite: every pooling tells, the largest of a column too.
TEST(Embedding, AVectorThatIsNotFiniteIsAnErrorThatNamesTheText) {
  for (const char* family : {"bert", "llama"}) {
    const ModelSpec spec = model_spec(tiny_config(family));
    Arena arena;
    ModelWeights weights = random_weights(spec, DType::f32, arena, 5);
    Tensor& table = embed_of(weights).tokens;
    table.span<float>()[static_cast<size_t>(3 * spec.width)] = std::numeric_limits<float>::infinity();
    pack_weights(spec, weights, arena);
    const std::vector<std::vector<int32_t>> texts = {{1, 2}, {2, 3, 2}};
    for (const Pooling pooling :
         {Pooling::mean, Pooling::last, Pooling::max, Pooling::mean_sqrt, Pooling::weighted_mean}) {
      SCOPED_TRACE(fmt::format("{} {}", family, name_of(pooling)));
      EXPECT_TRUE(throws(ErrorKind::bad_file, "the vector of text 2 of 2 holds NaN or infinity",
                         [&] { all_vectors(spec, weights, nullptr, texts, {.pooling = pooling}, arena); }));
    }
  }
}

// The last MLP overflows in some rows of a text and not in its first: what is largest must not hide them.
TEST(Embedding, TheLargestOfAColumnDoesNotHideANaN) {
  const ModelSpec spec = model_spec(tiny_config("llama"));
  const std::vector<std::vector<int32_t>> texts = {random_tokens(24, spec.vocab, 3)};
  int judged = 0;
  for (double scale = 1e35; scale < 1e39; scale *= 1.3) {
    Arena arena;
    ModelWeights weights = random_weights(spec, DType::f32, arena, 5);
    for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
      if (info.name.find(fmt::format("{}.mlp.down", spec.layers - 1)) == std::string::npos) return;
      for (float& w : t.span<float>()) w *= static_cast<float>(scale);
    });
    pack_weights(spec, weights, arena);
    const auto is_finite = [&](Pooling pooling) {
      try {
        all_vectors(spec, weights, nullptr, texts, {.pooling = pooling}, arena);
        return true;
      } catch (const Error&) { return false; }
    };
    if (!is_finite(Pooling::cls) || is_finite(Pooling::mean)) continue;
    EXPECT_FALSE(is_finite(Pooling::max)) << scale;
    ++judged;
  }
  EXPECT_GT(judged, 0);
}

TEST(Embedding, TheNumPyFileBeginsAtAMultipleOf64) {
  const std::string path = testing::TempDir() + "tern-vectors.npy";
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  {
    NpyWriter writer(real_io(), path, 2, 3);
    writer.append(std::span(values).first(3));
    EXPECT_FALSE(real_io().stat(path));
    writer.append(std::span(values).last(3));
    writer.finish();
  }
  const std::string bytes = real_io().read(path);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const size_t header = static_cast<uint8_t>(bytes[8]) + 256 * static_cast<size_t>(static_cast<uint8_t>(bytes[9]));
  EXPECT_EQ((10 + header) % 64, 0U);
  EXPECT_EQ(bytes.substr(10, 59), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  EXPECT_EQ(bytes[9 + header], '\n');
  ASSERT_EQ(bytes.size(), 10 + header + 24);
  EXPECT_EQ(std::memcmp(bytes.data() + 10 + header, values.data(), 24), 0);
  std::filesystem::remove(path);
}

TEST(Embedding, ANumPyFileThatIsNotFinishedLeavesNothing) {
  std::string folder = testing::TempDir() + "tern-npy-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  { NpyWriter(real_io(), folder + "/v.npy", 2, 3).append(std::vector<float>{1, 2, 3}); }
  EXPECT_TRUE(real_io().list(folder).empty());
  remove_all(real_io(), folder);
}

}  // namespace
}  // namespace tern
