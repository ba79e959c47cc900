// Which experts of a mixture a text's tokens choose, one token after the other, and how many of them a cache would have had: by
// score, by last use over all layers, and by last use within each layer. The routing is recorded from the model itself; the
// hits are those that the cache's own decisions give on it (store/cache_decisions.h).
//
//   expert_cache MODEL TEXT [TOKENS]      TEXT: a file; its first TOKENS tokens are read
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "infer/executor.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/run.h"
#include "model/file_bands.h"
#include "model/load_streamed.h"
#include "model/rope_table.h"

namespace {

using namespace tern;

struct Recorded {
  std::vector<int> groups;  // of items: 0 up, 1 down
  std::vector<ExtentCache::Event> events;
  int experts = 0, layers = 0;
};

// Every pass is of one token, as in decoding.
Recorded record_routing(const std::string& path, const std::string& text, size_t tokens) {
  const ModelDescription model = describe_model(path, std::nullopt);
  std::vector<int32_t> ids = model.tokenizer->encode(text);
  ids.resize(std::min(ids.size(), tokens));
  const auto context = static_cast<int64_t>(ids.size()) + 1;
  Arena arena;
  const FileBands bands = file_bands(model.spec, model.dir.path, model.dtype, {.least = 1});
  Recorded recorded;
  for (const CacheItem& item : expert_items(bands)) recorded.groups.push_back(item.group);
  recorded.experts = static_cast<int>(num_experts(bands));
  recorded.layers = static_cast<int>(bands.experts.size());
  const std::vector<bool> stays(pass_extents(bands, model.dtype).size(), true);
  const StreamedModel weights =
      load_streamed(model.spec, model.dir.path, model.dtype, bands, stays, open_blocks(bands.paths).files, {}, arena,
                    {.slots = {recorded.experts, recorded.experts}});
  const RopeTable rope = rope_table(model.spec, context, context);
  const InferenceNeeds needs{.context = context};
  KvPool pool(kv_shape(model.spec, model.dtype, needs), kv_pages(needs), arena);
  EngineLimits limits{.context = context};
  limits.scheduler.chunk = limits.scheduler.token_budget = 1;
  Engine engine(pool, model_executor(model.spec, weights.weights, &rope, arena), nullptr, limits, real_clock());
  weights.cache->record(true);
  Request request;
  request.prompt = ids;
  request.max_tokens = 1;
  run_request(engine, request, {}, {}, nullptr);
  recorded.events = weights.cache->take_events();
  return recorded;
}

double hit_rate(const Recorded& r, std::vector<int> groups, const CacheSettings& settings) {
  CacheDecisions decisions(std::move(groups), settings);
  for (const ExtentCache::Event& event : r.events)
    if (event.item >= 0)
      decisions.see(event.item, event.share);
    else
      decisions.want(event.list);
  return decisions.hits().rate();
}

// Each layer has places of its own.
double hit_rate_by_layer(const Recorded& r, int slots) {
  std::vector<int> groups;
  const size_t items_of_layer = r.groups.size() / static_cast<size_t>(r.layers);
  for (size_t i = 0; i < r.groups.size(); ++i) groups.push_back(2 * static_cast<int>(i / items_of_layer) + r.groups[i]);
  const std::vector<int> each(static_cast<size_t>(2 * r.layers), slots / r.layers);
  return hit_rate(r, groups, {.slots = each, .policy = CachePolicy::lru});
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: expert_cache MODEL TEXT [TOKENS]\n");
    return 2;
  }
  std::ifstream file(arguments[2], std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const Recorded r = record_routing(arguments[1], text, count > 3 ? std::stoul(arguments[3]) : 1000);
  fmt::print("{} experts in {} layers; share of chosen experts that are there\n", r.experts, r.layers);
  const double fades[] = {0.01, 0.03, 0.1, 0.3};
  fmt::print("places");
  for (const double fade : fades) fmt::print("  score {:<4}", fade);
  fmt::print("  lru     lru by layer  even\n");
  for (const int eighths : {1, 2, 3, 4, 5, 6, 7}) {
    const int slots = std::max(2, r.experts * eighths / 8 / r.layers * r.layers);
    fmt::print("{:>6}", slots);
    for (const double fade : fades)
      fmt::print("  {:.4f}    ", hit_rate(r, r.groups, {.slots = {slots, slots}, .fade = fade}));
    fmt::print("  {:.4f}  {:.4f}        {:.4f}\n",
               hit_rate(r, r.groups, {.slots = {slots, slots}, .policy = CachePolicy::lru}),
               hit_rate_by_layer(r, slots), static_cast<double>(slots) / r.experts);
  }
  return 0;
}
