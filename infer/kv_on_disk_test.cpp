// Keys and values in a file: the bits of a run with all of them in memory, in the bytes that were planned, and faults that are told.
#include "infer/kv_on_disk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "base/clock.h"
#include "base/rounding.h"
#include "formats/format_test_support.h"
#include "infer/executor.h"
#include "infer/memory_fit.h"
#include "infer/run.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"
#include "store/scratch_testing.h"

namespace tern {
namespace {

constexpr int64_t kDiskContext = 28;

// A model of five layers, ready to run.
struct DeepModel {
  explicit DeepModel(const char* family, DType dtype = DType::f32) : spec(model_spec(config_of(family))) {
    weights = random_weights(spec, dtype, arena, 5);
    pack_weights(spec, weights, arena);
    if (spec.rope.kind != RopeKind::none) rope = rope_table(spec, kDiskContext, kDiskContext);
  }
  static HfConfig config_of(const char* family) {
    HfConfig config = tiny_config(family);
    config.num_hidden_layers = 5;
    if (!config.windowed_layers.empty()) config.windowed_layers = {true, false, true, true, false};
    return config;
  }
  ModelSpec spec;
  Arena arena;
  ModelWeights weights;
  RopeTable rope;
};

// How keys and values are kept in a run.
struct Kept {
  int64_t on_disk = 0, page_tokens = 4;
  KvType type = KvType::f32;
  int64_t alignment = 64;
  int64_t sequences = 4;
  bool cache_prefixes = false;
  std::function<void(MemoryScratch&)> fault = {};
};

// An engine over such a pool.
struct KeptRig {
  KeptRig(DeepModel& model, const Kept& kept)
      : shape(kv_shape(model.spec, kept.page_tokens, kept.type)),
        num_pages(kept.sequences * ceil_div(kDiskContext, kept.page_tokens)),
        pool(shape, num_pages, arena, disk_of(kept)),
        engine(pool,
               model_executor(model.spec, model.weights, model.rope.num_positions > 0 ? &model.rope : nullptr,
                              model.arena),
               nullptr,
               {.scheduler = {.token_budget = 12, .chunk = 5, .max_running = 6},
                .context = kDiskContext,
                .cache_prefixes = kept.cache_prefixes},
               real_clock()) {}
  std::shared_ptr<KvOnDisk> disk_of(const Kept& kept) {
    if (kept.on_disk == 0) return nullptr;
    auto file =
        std::make_unique<MemoryScratch>(kv_file_bytes(shape, num_pages, kept.on_disk, kept.alignment), kept.alignment);
    if (kept.fault) kept.fault(*file);
    return std::make_shared<KvOnDisk>(std::move(file), shape, num_pages, kept.on_disk, arena);
  }
  KvShape shape;
  int64_t num_pages;
  Arena arena;
  KvPool pool;
  Engine engine;
};

// Prompts of 1 to 19 tokens; some ask for several samples, which share pages until they write.
std::vector<Request> some_requests(const ModelSpec& spec) {
  std::vector<Request> requests;
  const int64_t lengths[] = {19, 3, 8, 1, 8}, samples[] = {1, 3, 1, 2, 1};
  for (uint64_t i = 0; i < 5; ++i) {
    Request r;
    r.prompt = random_tokens(lengths[i], spec.vocab, i == 4 ? 2 : i);  // the last is the third again
    r.num_samples = samples[i], r.max_tokens = 9;
    r.sampling.temperature = 1, r.sampling.seed = i;
    requests.push_back(std::move(r));
  }
  return requests;
}

using SaidByRequest =
    std::vector<std::vector<std::pair<std::vector<int32_t>, double>>>;  // tokens, and their log probability

SaidByRequest say(KeptRig& rig, const ModelSpec& spec) {
  SaidByRequest said;
  for (const std::vector<Sample>& samples : run_requests(rig.engine, some_requests(spec), {}, {}, nullptr)) {
    said.emplace_back();
    for (const Sample& s : samples) said.back().emplace_back(s.token_ids, s.sum_log_probability);
  }
  return said;
}

void expect_moved_as_planned(const KvPool& pool) {
  const ImageCounts counts = pool.on_disk()->counts();
  EXPECT_EQ(counts.read_bytes(), pool.on_disk()->planned().read);
  EXPECT_EQ(counts.written_bytes(), pool.on_disk()->planned().written);
  EXPECT_GT(counts.read_bytes(), 0);
  EXPECT_GT(counts.written_bytes(), 0);
}

TEST(KvOnDisk, GivesTheBitsOfKeysInMemoryInThePlannedBytes) {
  for (const char* family : {"llama", "gemma3_text", "gpt2"}) {
    DeepModel model(family);
    for (const int64_t page_tokens : {1, 3, 4})
      for (const KvType type : {KvType::f32, KvType::q8}) {
        KeptRig memory(model, {.page_tokens = page_tokens, .type = type});
        const SaidByRequest want = say(memory, model.spec);
        EXPECT_GT(memory.pool.num_copied_pages() + (page_tokens == 1), 0);
        for (const int64_t on_disk : {1, 3, 5}) {
          SCOPED_TRACE(testing::Message() << family << ", pages of " << page_tokens << ", " << name_of(type) << ", "
                                          << on_disk << " layers");
          KeptRig disk(model, {.on_disk = on_disk, .page_tokens = page_tokens, .type = type});
          EXPECT_EQ(disk.arena.current()[static_cast<size_t>(MemoryClass::kv_cache)],
                    kv_memory_bytes(disk.shape, disk.num_pages, on_disk, 64));
          EXPECT_EQ(say(disk, model.spec), want);
          expect_moved_as_planned(disk.pool);
          EXPECT_EQ(disk.pool.on_disk()->num_layers(), on_disk);
        }
      }
  }
}

// Pages too few for all: sequences are preempted, prefixes kept and given up.
TEST(KvOnDisk, PreemptionAndKeptPrefixesChangeNothing) {
  DeepModel model("llama", DType::bf16);
  KeptRig ample(model, {.type = KvType::bf16, .sequences = 8});
  const SaidByRequest want = say(ample, model.spec);
  for (const bool cached : {false, true}) {
    KeptRig disk(model, {.on_disk = 5, .type = KvType::bf16, .sequences = 2, .cache_prefixes = cached});
    EXPECT_EQ(say(disk, model.spec), want);
    expect_moved_as_planned(disk.pool);
  }
}

TEST(KvOnDisk, ARealFileHasNoNameAndTheSameBits) {
  DeepModel model("llama");
  KeptRig memory(model, {});
  const SaidByRequest want = say(memory, model.spec);
  TemporaryDirectory dir;
  std::filesystem::create_directories(dir / "keys");
  const InferenceNeeds needs{.context = kDiskContext, .sequences = 4, .page_tokens = 4, .kv_on_disk = 5};
  const KvShape shape = kv_shape(model.spec, DType::f32, needs);
  Arena arena;
  std::string note;
  KvPool pool(shape, kv_pages(needs), arena, open_kv_on_disk(dir / "keys", shape, kv_pages(needs), 5, arena, note));
  EXPECT_EQ(arena.current_total(), inference_fit(model.spec, DType::f32, needs).kv_cache);
  EXPECT_TRUE(std::filesystem::is_empty(dir / "keys"));
  Engine engine(pool, model_executor(model.spec, model.weights, &model.rope, model.arena), nullptr,
                {.scheduler = {.token_budget = 12, .chunk = 5, .max_running = 6}, .context = kDiskContext},
                real_clock());
  SaidByRequest said;
  for (const std::vector<Sample>& samples : run_requests(engine, some_requests(model.spec), {}, {}, nullptr)) {
    said.emplace_back();
    for (const Sample& s : samples) said.back().emplace_back(s.token_ids, s.sum_log_probability);
  }
  EXPECT_EQ(said, want);
  expect_moved_as_planned(pool);
  EXPECT_TRUE(std::filesystem::is_empty(dir / "keys"));
}

TEST(KvOnDisk, LayersAreSpreadAndTakeWhatIsSaid) {
  const KvShape shape{.layers = {{4, 64}, {0, 0}, {2, 128}, {4, 64}, {1, 8}}, .page_tokens = 16, .type = KvType::f32};
  EXPECT_EQ(kv_layers(shape), 4);
  EXPECT_EQ(kv_layers_on_disk(shape, 0), std::vector<bool>(5, false));
  EXPECT_EQ(kv_layers_on_disk(shape, 2), (std::vector<bool>{false, false, true, false, true}));
  EXPECT_EQ(kv_layers_on_disk(shape, 4), (std::vector<bool>{true, false, true, true, true}));
  EXPECT_EQ(kv_memory_bytes(shape, 10, 0), shape.bytes_per_page() * 10);
  // Two slots of the largest layer that comes and goes, and the two layers that stay.
  const int64_t large = 2 * 10 * 16 * 4 * 256;
  EXPECT_EQ(kv_memory_bytes(shape, 10, 2), 2 * large + kKvAlignment + large + large);
  EXPECT_EQ(kv_file_bytes(shape, 10, 2), large + 2 * round_up(10 * 16 * 4 * 8, 4096));
}

KvView view_of(const KvShape& shape, const std::vector<int64_t>& past, const std::vector<std::vector<int32_t>>& pages) {
  KvView view{.page_tokens = shape.page_tokens,
              .past = past,
              .begins = {0},
              .pages = {},
              .keys = {},
              .values = {},
              .code = shape.type};
  for (const auto& own : pages) {
    view.pages.insert(view.pages.end(), own.begin(), own.end());
    view.begins.push_back(static_cast<int64_t>(view.pages.size()));
  }
  return view;
}

TEST(KvOnDisk, AStepOfWholePagesMovesTheClosedForm) {
  for (const KvType type : {KvType::f32, KvType::bf16}) {
    const KvShape shape{.layers = {{4, 64}, {2, 128}, {8, 64}}, .page_tokens = 16, .type = type};
    const std::vector<std::vector<KvCopy>> none(3);
    for (const int64_t past : {1, 15, 16, 17, 100, 112}) {
      std::vector<std::vector<int32_t>> pages(5);
      for (int32_t page = 0; page < 40; ++page) pages[static_cast<size_t>(page * 7 % 5)].push_back(page);
      for (auto& own : pages) own.resize(static_cast<size_t>(ceil_div(past + 1, 16)));
      const KvView view = view_of(shape, std::vector<int64_t>(5, past), pages);
      const KvPass pass = plan_kv_pass(shape, 40, {0, 1, 2}, view, std::vector<int64_t>(5, 1), none);
      EXPECT_EQ(pass.moved(), kv_step_bytes(shape, 3, 5, past)) << "past " << past;
      const int64_t size = type == KvType::f32 ? 4 : 2;
      EXPECT_EQ(pass.moved().read, 2 * 5 * ceil_div(past, 16) * 16 * size * (256 + 256 + 512));
    }
  }
}

// Bytes of the keys of one layer's image, one by one: what a step needs is read, what it makes is written, and nothing that is nobody's business.
TEST(KvOnDisk, APassMovesWhatIsNeededAndNoMore) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const auto draw = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    const KvShape shape{.layers = {{1 + draw(3), 1 + draw(9)}}, .page_tokens = 1 + draw(5), .type = KvType::f32};
    const int64_t P = shape.page_tokens, row = 4 * shape.layers[0].head_dim, heads = shape.layers[0].kv_heads;
    const int64_t page_bytes = row * heads * P, align = int64_t{16} << draw(4), num_pages = 12;
    std::vector<int32_t> free(static_cast<size_t>(num_pages));
    for (size_t i = 0; i < free.size(); ++i) free[i] = static_cast<int32_t>(i);
    std::shuffle(free.begin(), free.end(), random);
    std::vector<int64_t> past, count;
    std::vector<std::vector<int32_t>> pages;
    for (int s = 0; s < 3; ++s) {
      past.push_back(draw(static_cast<uint32_t>(2 * P + 1))), count.push_back(1 + draw(static_cast<uint32_t>(P)));
      pages.emplace_back();
      for (int64_t j = 0; j < ceil_div(past.back() + count.back(), P); ++j) {
        pages.back().push_back(free.back());
        free.pop_back();
      }
    }
    std::vector<std::vector<KvCopy>> copies(1);
    if (round % 3 == 0 && past[0] > 0) copies[0].push_back({free.front(), pages[0][0]});

    std::set<int64_t> kept, made;  // bytes that must be read, and that are written
    const auto add_page = [&](std::set<int64_t>& to, int32_t page) {
      for (int64_t b = 0; b < page_bytes; ++b) to.insert(page * page_bytes + b);
    };
    for (size_t s = 0; s < 3; ++s)
      for (int64_t t = 0; t < past[s] + count[s]; ++t) {
        const int32_t page = pages[s][static_cast<size_t>(t / P)];
        if (t < past[s]) add_page(kept, page);
        for (int64_t h = 0; h < heads && t >= past[s]; ++h)
          for (int64_t b = 0; b < row; ++b) made.insert(page * page_bytes + (h * P + t % P) * row + b);
      }
    for (const KvCopy& c : copies[0]) add_page(kept, c.from), add_page(made, c.to);
    std::set<int64_t> read_blocks, written_blocks;
    for (const int64_t b : made) {
      const int64_t block = b / align, page = b / page_bytes;
      written_blocks.insert(block);
      // Run by run, not block by block: what a run shares with another page is judged below.
      if (block * align < page * page_bytes || (block + 1) * align > (page + 1) * page_bytes) read_blocks.insert(block);
    }
    for (const int64_t b : kept) read_blocks.insert(b / align);

    const KvPass pass = plan_kv_pass(shape, num_pages, {0}, view_of(shape, past, pages), count, copies, align);
    const int64_t half = round_up(num_pages * page_bytes, align);
    std::set<int64_t> reads, writes;
    for (const BlockRun& run : pass.moves[0].reads)
      for (int64_t at = run.begin; at < run.end; at += align) reads.insert(at / align);
    for (const BlockRun& run : pass.moves[0].writes)
      for (int64_t at = run.begin; at < run.end; at += align) writes.insert(at / align);
    for (auto* blocks : {&read_blocks, &written_blocks}) {
      const std::set<int64_t> keys = *blocks;
      for (const int64_t block : keys) blocks->insert(block + half / align);
    }
    EXPECT_EQ(writes, written_blocks);
    for (const int64_t block : read_blocks) EXPECT_TRUE(reads.contains(block)) << block;
    for (const int64_t block : reads)  // more only where a run that is written shares a block at one of its ends
      EXPECT_TRUE(read_blocks.contains(block) || writes.contains(block)) << block;
  }
}

// Steps until an error; what was drawn before it.
struct UntilError {
  std::map<std::pair<uint64_t, int64_t>, std::vector<int32_t>> drawn;
  std::string message;
  explicit UntilError(KeptRig& rig, const ModelSpec& spec) {
    for (const Request& r : some_requests(spec)) rig.engine.submit(r);
    go_on(rig);
  }
  void go_on(KeptRig& rig) {
    message.clear();
    try {
      while (!rig.engine.idle())
        for (const Event& e : rig.engine.step())
          if (e.drawn) drawn[{e.request, e.sample}].push_back(e.drawn->id);
    } catch (const Error& e) { message = e.what(); }
  }
};

TEST(KvOnDisk, ADiskThatFailsIsToldAndNoTokenIsWrong) {
  DeepModel model("llama");
  KeptRig memory(model, {});
  const UntilError want(memory, model.spec);
  EXPECT_EQ(want.message, "");
  for (const int64_t from : {0, 1, 17, 60, 120}) {
    for (const bool reading : {true, false}) {
      SCOPED_TRACE(testing::Message() << (reading ? "read " : "write ") << from);
      KeptRig rig(model, {.on_disk = 5, .fault = [&](MemoryScratch& file) {
                            const auto fails = [=](int64_t k, int64_t wanted) {
                              return k >= from ? int64_t{reading ? -EIO : -ENOSPC} : wanted;
                            };
                            (reading ? file.on_read : file.on_write) = fails;
                          }});
      const UntilError got(rig, model.spec);
      EXPECT_NE(got.message.find(reading ? "reading" : "writing"), std::string::npos) << got.message;
      EXPECT_NE(got.message.find("states.bin"), std::string::npos) << got.message;
      for (const auto& [sample, tokens] : got.drawn) {
        const std::vector<int32_t>& whole = want.drawn.at(sample);
        ASSERT_LE(tokens.size(), whole.size());
        EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), whole.begin()));
      }
    }
  }
}

// A read that fails once: the step has no effect, and the next one is that step again.
TEST(KvOnDisk, AStepThatFailedCanBeTriedAgain) {
  DeepModel model("llama");
  KeptRig memory(model, {});
  const UntilError want(memory, model.spec);
  for (const int64_t at : {0, 3, 11, 40, 77}) {
    SCOPED_TRACE(at);
    KeptRig rig(model, {.on_disk = 5, .page_tokens = 4, .fault = [&](MemoryScratch& file) {
                          file.on_read = [=](int64_t k, int64_t wanted) { return k == at ? int64_t{-EIO} : wanted; };
                        }});
    UntilError got(rig, model.spec);
    EXPECT_NE(got.message, "");
    got.go_on(rig);
    EXPECT_EQ(got.message, "");
    EXPECT_EQ(got.drawn, want.drawn);
  }
}

}  // namespace
}  // namespace tern
