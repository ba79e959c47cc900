// Neurons of a ReLU model's MLPs from a file: how many are active, what a cache of the last k tokens' neurons reads, what a predictor
// of low rank names and what that changes, and tokens a second beside reading whole MLPs (LLM in a flash).
//
//   neurons MODEL FIT TUNE TEST DIR [PASSAGES LENGTH TOKENS ROUNDS]
//     FIT, TUNE, TEST  texts: the predictor is fitted to the first, its thresholds to the second, all figures are of the third
//     DIR              the neurons' file, which has no name, is on its disk
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "benchmarks/inference/neuron_sets.h"
#include "infer/kv_cache.h"
#include "infer/load.h"
#include "infer/ragged.h"
#include "model/neuron_file.h"
#include "model/neuron_predictor.h"
#include "model/sparse_mlp.h"

namespace {

using namespace tern;

constexpr int kReaders = 8;
constexpr size_t kReplayed = 128;  // tokens: each takes hundreds of reads
constexpr size_t kFitted = 4;      // passages to fit a predictor, for each that is measured
constexpr int kAll = 1 << 20;      // uses: whatever came stays

struct Sizes {
  size_t passages = 16, length = 128, tokens = 48, rounds = 5;
};
using Passage = std::vector<int32_t>;

struct Model {
  ModelDescription about;
  Arena arena;
  ModelWeights weights;
  NeuronTables bundled, apart;
  size_t num_mlps() const { return bundled.units.size(); }
  const ModelSpec& spec() const { return about.spec; }
  const MlpSpec& mlp(size_t m) const { return *mlp_of(spec().units[static_cast<size_t>(bundled.units[m])]); }
  const MlpWeights& mlp_weights(size_t m) const {
    return std::get<MlpWeights>(weights.units[static_cast<size_t>(bundled.units[m])]);
  }
};

// A file of neurons and a cache of it.
struct Neurons {
  Neurons(Model& model, NeuronLayout layout, const std::string& dir)
      : tables(layout == NeuronLayout::bundled ? model.bundled : model.apart),
        scratch(open_scratch(dir, tables.bytes, ReadWay::direct, "neurons")) {
    write_neurons(model.spec(), model.weights, DType::f32, tables, *scratch.file);
    if (!scratch.note.empty()) fmt::print("{}\n", scratch.note);
  }
  void open(int uses, int slots, int readers = kReaders) {
    cache.reset();
    const RecordSettings settings{.window = {.uses = uses, .slots = slots}, .threads = readers};
    const auto align = static_cast<size_t>(scratch.file->alignment());
    const auto bytes = static_cast<size_t>(RecordCache::bytes_for(tables.tables, settings, scratch.file->alignment()));
    memory.reset(std::aligned_alloc(align, bytes));
    cache = std::make_unique<RecordCache>(*scratch.file, tables.tables, settings,
                                          std::span(static_cast<std::byte*>(memory.get()), bytes));
  }
  NeuronTables tables;
  OpenedScratch scratch;
  std::unique_ptr<void, decltype(&std::free)> memory{nullptr, &std::free};
  std::unique_ptr<RecordCache> cache;
};

std::vector<Passage> passages_of(const Model& model, const std::string& path, const Sizes& sizes) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<int32_t> ids = model.about.tokenizer->encode(std::string(std::istreambuf_iterator<char>(file), {}));
  const size_t length = sizes.length + 1;  // the last token is a target alone
  if (ids.size() < sizes.passages * length)
    throw Error(ErrorKind::usage, "{}: {} tokens are too few", path, ids.size());
  std::vector<Passage> passages;
  for (size_t i = 0; i < sizes.passages; ++i) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(ids.size() / sizes.passages * i);
    passages.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(length));
  }
  return passages;
}

// What each MLP saw and which of its neurons were active, from the engine's own pass.
class Recorder final : public InputObserver {
 public:
  explicit Recorder(const Model& model) : inputs(model.num_mlps()), sets(model.num_mlps()) {
    for (size_t m = 0; m < model.num_mlps(); ++m)
      ups_[&model.mlp_weights(m).up] = downs_[&model.mlp_weights(m).down] = m;
  }
  void see(const Linear& linear, const Tensor& x) override {
    const std::span<const float> numbers = x.span<float>();
    if (const auto up = ups_.find(&linear); up != ups_.end())
      inputs[up->second].insert(inputs[up->second].end(), numbers.begin(), numbers.end());
    const auto down = downs_.find(&linear);
    if (down == downs_.end()) return;
    const auto F = static_cast<size_t>(linear.in);
    for (size_t t = 0; t < numbers.size() / F; ++t) {
      std::vector<int>& set = sets[down->second].emplace_back();
      for (size_t i = 0; i < F; ++i)
        if (!(numbers[t * F + i] <= 0)) set.push_back(static_cast<int>(i));
    }
  }
  std::vector<std::vector<float>> inputs;  // of each MLP, (T, D)
  std::vector<Sets> sets;                  // of each MLP

 private:
  std::map<const Linear*, size_t> ups_, downs_;
};

Recorder record(Model& model, const std::vector<Passage>& passages) {
  Recorder recorder(model);
  const Compute compute{.arena = model.arena, .observer = &recorder};
  for (const Passage& p : passages) {
    const std::span<const int32_t> tokens = std::span(p).first(p.size() - 1);
    model_forward(model.spec(), model.weights, make_rows(tokens, {0, std::ssize(tokens)}, nullptr), nullptr, compute);
  }
  return recorder;
}

// Which neurons MLP m takes for its next row, by the row's input.
using Choose = std::function<std::vector<int>(size_t m, std::span<const float> n)>;
// Addresses of these neurons of MLP m.
using Bring = std::function<void(size_t m, std::span<const int>, std::vector<const std::byte*>&)>;

// One pass up to the head, the MLPs by neurons.
Tensor sparse_pass(Model& model, const Rows& rows, KvView* kv, const Choose& choose, const Bring& bring) {
  const Compute compute{.arena = model.arena};
  std::vector<int> chosen;
  std::vector<const std::byte*> at;
  Tensor x;
  size_t m = 0;
  for (int u = 0; u + 1 < static_cast<int>(model.spec().units.size()); ++u) {
    if (m < model.num_mlps() && model.bundled.units[m] == u) {
      const auto by_row = [&](std::span<const float> n) { return std::span<const int>(chosen = choose(m, n)); };
      const auto brought = [&](std::span<const int> neurons) {
        bring(m, neurons, at);
        return std::span<const std::byte* const>(at);
      };
      x = sparse_mlp_forward(model.mlp(m), model.mlp_weights(m), x, by_row, brought, compute);
      ++m;
    } else {
      x = unit_forward(model.spec(), u, model.weights.units[static_cast<size_t>(u)], rows, x, nullptr, kv, compute);
    }
  }
  return x;
}

Bring from_cache(RecordCache& cache, bool all_there) {
  return [&cache, all_there](size_t m, std::span<const int> neurons, std::vector<const std::byte*>& at) {
    const int table = static_cast<int>(m);
    if (!all_there) cache.want(table, neurons);
    at.clear();
    for (const int i : neurons) at.push_back(cache.record(table, i));
  };
}

std::vector<int> all_neurons(const Model& model, size_t m) {
  std::vector<int> all(static_cast<size_t>(model.mlp(m).hidden));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Nats a token of a passage; without a choice by the engine's dense products.
double loss_of(Model& model, const Passage& p, const Choose& choose, const Bring& bring) {
  const std::span<const int32_t> tokens = std::span(p).first(p.size() - 1);
  const Rows rows = make_rows(tokens, {0, std::ssize(tokens)}, nullptr);
  const Compute compute{.arena = model.arena};
  const Tensor x = choose ? sparse_pass(model, rows, nullptr, choose, bring)
                          : model_forward(model.spec(), model.weights, rows, nullptr, compute);
  const std::vector<double> losses = head_losses(model.spec(), model.weights, x, std::span(p).subspan(1), compute);
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

struct Mean {
  double mean = 0, error = 0;
};
Mean mean_of(const std::vector<double>& x) {
  Mean m;
  for (const double v : x) m.mean += v / static_cast<double>(x.size());
  for (const double v : x) m.error += (v - m.mean) * (v - m.mean);
  m.error = std::sqrt(m.error / static_cast<double>(x.size() * (x.size() - 1)));
  return m;
}

void print_activity(const Model& model, const Recorder& r) {
  fmt::print(
      "\nshare of active neurons, by layer (mean over {} tokens), and of those the share that the token before had "
      "too\n",
      r.sets[0].size());
  for (size_t m = 0; m < r.sets.size(); ++m) {
    double active = 0, again = 0;
    for (size_t t = 1; t < r.sets[m].size(); ++t) {
      const std::vector<int>&now = r.sets[m][t], &before = r.sets[m][t - 1];
      active += static_cast<double>(now.size());
      again +=
          static_cast<double>(std::ranges::count_if(now, [&](int i) { return std::ranges::binary_search(before, i); }));
    }
    fmt::print("layer {}  {:.4f}  {:.3f}\n", m,
               active / static_cast<double>((r.sets[m].size() - 1) * static_cast<size_t>(model.mlp(m).hidden)),
               again / active);
  }
}

RecordCounts replay(Neurons& neurons, const std::vector<Sets>& sets, int k) {
  neurons.open(k, neurons.tables.tables[0].records);
  for (size_t t = 0; t < sets[0].size(); ++t)
    for (size_t m = 0; m < sets.size(); ++m) neurons.cache->want(static_cast<int>(m), sets[m][t]);
  return neurons.cache->counts();
}

void print_windows(const Model& model, Recorder r, const Recorder& other, Neurons& bundled, Neurons& apart) {
  for (Sets& sets : r.sets) sets.resize(std::min(sets.size(), kReplayed));
  const int64_t record = model.bundled.tables[0].record_bytes();
  const auto most_run = static_cast<size_t>(std::max<int64_t>(1, RecordCache::kReadBytes / record));
  const auto tokens = static_cast<double>(r.sets[0].size());
  const auto hidden = static_cast<size_t>(model.mlp(0).hidden);
  fmt::print(
      "\na token's neurons, exactly chosen, with those of the k tokens before kept ({} tokens; whole MLPs: {} KiB a "
      "token)\n",
      r.sets[0].size(), static_cast<int64_t>(model.num_mlps() * hidden) * record / 1024);
  fmt::print(
      "kept: the most that the MLPs' windows hold at once, as a share of all neurons; in the same memory: KiB a token "
      "if whole MLPs are "
      "read beside what stays, and if the\nneurons stay that were active most often in the fitted text\n");
  fmt::print("           KiB a token        reads            KiB of blocks             in the same memory\n");
  fmt::print(" k   hits  executed  by sets   bundled   apart   bundled    apart    kept  whole MLPs  hottest\n");
  for (const int k : {1, 2, 3, 4, 5, 8, 12, 16}) {
    Arithmetic sum;
    size_t kept = 0;
    int64_t beside_hottest = 0;
    for (size_t m = 0; m < r.sets.size(); ++m) {
      const Arithmetic a = by_sets(r.sets[m], static_cast<size_t>(k), hidden, most_run);
      sum.missing += a.missing, sum.runs += a.runs, kept += a.most_kept;
      beside_hottest += missing_beside_hottest(r.sets[m], other.sets[m], hidden, a.most_kept);
    }
    const RecordCounts b = replay(bundled, r.sets, k), a = replay(apart, r.sets, k);
    if (b.missed_bytes != sum.missing * record || b.reads != sum.runs || a.missed_bytes != b.missed_bytes ||
        a.reads != 2 * b.reads)
      throw Error(ErrorKind::bug, "k {}: the cache read {} bytes in {} reads ({} in {} apart), by sets {} in {}", k,
                  b.missed_bytes, b.reads, a.missed_bytes, a.reads, sum.missing * record, sum.runs);
    const auto kib = [&](int64_t bytes) { return static_cast<double>(bytes) / 1024 / tokens; };
    const size_t all = r.sets.size() * hidden;
    fmt::print(
        "{:>2}  {:.3f}  {:>8.1f}  {:>7.1f}   {:>7.1f}  {:>6.1f}   {:>7.1f}  {:>7.1f}   {:.3f}  {:>11.1f}  {:>9.1f}\n",
        k, static_cast<double>(b.records.hits) / static_cast<double>(b.records.wanted), kib(b.missed_bytes),
        kib(sum.missing * record), static_cast<double>(b.reads) / tokens, static_cast<double>(a.reads) / tokens,
        kib(b.read_bytes), kib(a.read_bytes), static_cast<double>(kept) / static_cast<double>(all),
        static_cast<double>(static_cast<int64_t>(all - kept) * record) / 1024, kib(beside_hottest * record));
  }
}

using Predictors = std::vector<NeuronPredictor>;

Predictors fit_predictors(const Model& model, const Recorder& fit, int64_t rank) {
  Predictors predictors;
  for (size_t m = 0; m < model.num_mlps(); ++m) {
    NeuronInputs moments;
    add_inputs(moments, fit.inputs[m], model.mlp(m).width);
    predictors.push_back(fit_predictor(model.mlp_weights(m).up, moments, rank));
  }
  return predictors;
}

std::span<const float> row_of(const std::vector<float>& inputs, size_t t, int64_t width) {
  return std::span(inputs).subspan(t * static_cast<size_t>(width), static_cast<size_t>(width));
}

void set_thresholds(Predictors& predictors, const Recorder& tune, double recall) {
  for (size_t m = 0; m < predictors.size(); ++m) {
    NeuronPredictor& p = predictors[m];
    std::vector<float> scores(static_cast<size_t>(p.hidden)), of_active;
    for (size_t t = 0; t < tune.sets[m].size(); ++t) {
      predict_scores(p, row_of(tune.inputs[m], t, p.width), scores);
      for (const int i : tune.sets[m][t]) of_active.push_back(scores[static_cast<size_t>(i)]);
    }
    p.threshold = threshold_for(recall, std::move(of_active));
  }
}

Choose by_predictors(const Predictors& predictors) {
  return [&](size_t m, std::span<const float> n) { return named_neurons(predictors[m], n); };
}

struct Quality {
  double active = 0, named = 0, both = 0, all = 0;
};
Quality quality(const Predictors& predictors, const Recorder& test) {
  Quality q;
  for (size_t m = 0; m < predictors.size(); ++m)
    for (size_t t = 0; t < test.sets[m].size(); ++t) {
      const std::vector<int> named = named_neurons(predictors[m], row_of(test.inputs[m], t, predictors[m].width));
      q.active += static_cast<double>(test.sets[m][t].size()), q.named += static_cast<double>(named.size());
      q.all += static_cast<double>(predictors[m].hidden);
      q.both += static_cast<double>(
          std::ranges::count_if(test.sets[m][t], [&](int i) { return std::ranges::binary_search(named, i); }));
    }
  return q;
}

void print_predictors(Model& model, const std::vector<Passage>& passages, const Recorder& fit, const Recorder& tune,
                      const Recorder& test, Neurons& bundled) {
  bundled.open(kAll, bundled.tables.tables[0].records);
  for (size_t m = 0; m < model.num_mlps(); ++m) bundled.cache->want(static_cast<int>(m), all_neurons(model, m));
  const Bring bring = from_cache(*bundled.cache, true);
  std::vector<double> dense;
  for (const Passage& p : passages) dense.push_back(loss_of(model, p, {}, {}));
  const auto change = [&](const Choose& choose) {
    std::vector<double> more;
    for (size_t i = 0; i < passages.size(); ++i) more.push_back(loss_of(model, passages[i], choose, bring) - dense[i]);
    return mean_of(more);
  };
  const Mean of_dense = mean_of(dense);
  const Mean exact =
      change([&](size_t m, std::span<const float> n) { return active_neurons(model.mlp_weights(m).up, n); });
  const Mean whole = change([&](size_t m, std::span<const float>) { return all_neurons(model, m); });
  fmt::print(
      "\nloss {:.4f} ± {:.4f} nats a token ({} passages of {} tokens); change by the active neurons alone {:+.2e} ± "
      "{:.1e}, by all "
      "neurons in the same order {:+.2e}: {}\n",
      of_dense.mean, of_dense.error, passages.size(), passages[0].size() - 1, exact.mean, exact.error, whole.mean,
      exact.mean == whole.mean ? "the same to the bit" : "THEY DIFFER");
  fmt::print("rank  of the MLP's bytes  wanted recall  recall  precision  named  active  change of loss\n");
  for (const int64_t rank : {32, 128}) {
    Predictors predictors = fit_predictors(model, fit, std::min(rank, model.mlp(0).width));
    for (const double recall : {0.9, 0.95, 0.99}) {
      set_thresholds(predictors, tune, recall);
      const Quality q = quality(predictors, test);
      const Mean more = change(by_predictors(predictors));
      fmt::print("{:>4}  {:>19.3f}  {:>13.2f}  {:.4f}  {:.4f}     {:.4f} {:.4f}  {:+.4f} ± {:.4f}\n",
                 predictors[0].rank,
                 static_cast<double>(predictors[0].bytes()) /
                     static_cast<double>(model.bundled.tables[0].record_bytes() * model.bundled.tables[0].records),
                 recall, q.both / q.active, q.both / q.named, q.named / q.all, q.active / q.all, more.mean, more.error);
    }
  }
}

// Seconds that a text's tokens take, one after the other, head included.
double decode(Model& model, std::span<const int32_t> tokens, const Choose& choose, const Bring& bring) {
  const KvShape shape = kv_shape(model.spec(), 16, DType::f32);
  KvPool pool(shape, std::ssize(tokens) / shape.page_tokens + 2, model.arena);
  KvPages pages;
  const int64_t begin_ns = real_clock().now_ns();
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (!pool.reserve(pages, 1)) throw Error(ErrorKind::bug, "no page of keys");
    RaggedBatch batch;
    batch.add(tokens.subspan(t, 1), static_cast<int64_t>(t));
    const KvPages* const held = &pages;
    KvView view = pool.view({&held, 1});
    const Rows& rows = batch.rows(nullptr);
    const Compute compute{.arena = model.arena};
    Tensor x;
    if (choose) {
      x = sparse_pass(model, rows, &view, choose, bring);
    } else {
      x = model_forward(model.spec(), model.weights, rows, &view, compute);
    }
    const int32_t last = 0;
    head_logits(model.spec(), model.weights, x, {&last, 1}, compute);
    ++pages.length;
  }
  return static_cast<double>(real_clock().now_ns() - begin_ns) * 1e-9;
}

struct Way {
  std::string name;
  Choose choose;
  Neurons* neurons = nullptr;  // null: in memory, by the engine
  std::vector<double> rates = {};
};

void print_rates(Model& model, const std::vector<Passage>& passages, const Recorder& test, const Predictors& predictors,
                 const std::function<std::unique_ptr<Neurons>(NeuronLayout, int uses)>& open, const Sizes& sizes) {
  size_t token = 0;  // of the test's passages, for what was recorded
  const Choose recorded = [&](size_t m, std::span<const float>) {
    const std::vector<int>& set = test.sets[m][token];
    if (m + 1 == model.num_mlps()) ++token;
    return set;
  };
  const Choose whole = [&](size_t m, std::span<const float>) { return all_neurons(model, m); };
  const Choose named = by_predictors(predictors);
  std::vector<std::unique_ptr<Neurons>> files;
  const auto file = [&](NeuronLayout layout, int uses) { return files.emplace_back(open(layout, uses)).get(); };
  std::vector<Way> ways = {{"whole MLPs", whole, file(NeuronLayout::bundled, 0)},
                           {"named, k 0", named, file(NeuronLayout::bundled, 0)},
                           {"named, k 5", named, file(NeuronLayout::bundled, 5)},
                           {"named, k 5, apart", named, file(NeuronLayout::apart, 5)},
                           {"active, k 5", recorded, file(NeuronLayout::bundled, 5)},
                           {"in memory, dense", {}}};
  std::vector<RecordCounts> before;
  for (size_t round = 0; round <= sizes.rounds; ++round) {  // the first fills caches and does not count
    const size_t p = round % passages.size();
    if (round == 1)
      for (const Way& way : ways) before.push_back(way.neurons ? way.neurons->cache->counts() : RecordCounts{});
    for (Way& way : ways) {
      token = p * sizes.length;
      const Bring bring = way.neurons ? from_cache(*way.neurons->cache, false) : Bring();
      const double seconds = decode(model, std::span(passages[p]).first(sizes.tokens), way.choose, bring);
      if (round > 0) way.rates.push_back(static_cast<double>(sizes.tokens) / seconds);
    }
  }
  const auto tokens = static_cast<double>(sizes.rounds * sizes.tokens);
  fmt::print("\ntokens a second, {} rounds of {} tokens in turns, {} reads at once; named: rank {}\n", sizes.rounds,
             sizes.tokens, kReaders, predictors[0].rank);
  fmt::print(
      "way                 median  least   most    ÷ whole (median of rounds)  KiB/token  reads/token  KiB of "
      "blocks\n");
  for (size_t w = 0; w < ways.size(); ++w) {
    std::vector<double> rates = ways[w].rates, ratios;
    for (size_t i = 0; i < rates.size(); ++i) ratios.push_back(rates[i] / ways[0].rates[i]);
    std::ranges::sort(rates), std::ranges::sort(ratios);
    const RecordCounts c = ways[w].neurons ? ways[w].neurons->cache->counts() : RecordCounts{};
    const auto a_token = [&](int64_t RecordCounts::*n) { return static_cast<double>(c.*n - before[w].*n) / tokens; };
    fmt::print("{:<18}  {:>6.1f}  {:>6.1f}  {:>6.1f}  {:>26.2f}  {:>9.1f}  {:>11.1f}  {:>13.1f}\n", ways[w].name,
               rates[rates.size() / 2], rates.front(), rates.back(), ratios[ratios.size() / 2],
               a_token(&RecordCounts::missed_bytes) / 1024, a_token(&RecordCounts::reads),
               a_token(&RecordCounts::read_bytes) / 1024);
  }
}

Model load(const std::string& path) {
  Model model{.about = describe_model(path, DType::f32), .arena = {}, .weights = {}, .bundled = {}, .apart = {}};
  model.bundled = neuron_tables(model.spec(), DType::f32, NeuronLayout::bundled, 4096);
  model.apart = neuron_tables(model.spec(), DType::f32, NeuronLayout::apart, 4096);
  model.weights = load_weights(model.spec(), model.about.dir.path, DType::f32, model.arena);
  return model;
}

void run(const std::vector<std::string>& words) {
  Sizes sizes;
  size_t* const numbers[] = {&sizes.passages, &sizes.length, &sizes.tokens, &sizes.rounds};
  for (size_t i = 5; i < words.size() && i < 9; ++i) *numbers[i - 5] = std::stoul(words[i]);
  Model model = load(words[0]);
  const std::vector<Passage> test_text = passages_of(model, words[3], sizes);
  Sizes fitted = sizes;
  fitted.passages *= kFitted;
  const Recorder fit = record(model, passages_of(model, words[1], fitted));
  const Recorder tune = record(model, passages_of(model, words[2], sizes));
  const Recorder test = record(model, test_text);
  print_activity(model, test);
  Neurons bundled(model, NeuronLayout::bundled, words[4]), apart(model, NeuronLayout::apart, words[4]);
  fmt::print("reads of the neurons' file: {}\n", name_of(bundled.scratch.way));
  print_windows(model, test, fit, bundled, apart);
  Predictors predictors = fit_predictors(model, fit, std::min<int64_t>(128, model.mlp(0).width));
  set_thresholds(predictors, tune, 0.95);
  const auto open = [&](NeuronLayout layout, int uses) {
    auto neurons = std::make_unique<Neurons>(model, layout, words[4]);
    neurons->open(uses, neurons->tables.tables[0].records);
    return neurons;
  };
  print_rates(model, test_text, test, predictors, open, sizes);
  print_predictors(model, test_text, fit, tune, test, bundled);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) {
    fmt::print(stderr, "usage: neurons MODEL FIT TUNE TEST DIR [PASSAGES LENGTH TOKENS ROUNDS]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a long run shows how far it is
  try {
    run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "neurons: {}\n", error.what());
    return 1;
  }
  return 0;
}
