#include "planner/baselines/galvatron.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace tern {
namespace {

constexpr int kLayers = 28, kDevices = 8, kBatch = 64;
constexpr double kMessage = 8192.0 * 4096 * 2 / 1048576;  // MB of one sample's hidden states
constexpr double kOverlap = 1.1534195950157762;           // how much computing and communicating slow each other
constexpr double kParameters = 973.771484375;             // MB of one layer, f32
constexpr double kRecomputed = 56;                        // MB kept by a recomputed layer, one sample

// Forward of one layer, and of embedding and head together, in ms: fitted over eight sequence lengths (multiples of
// 4096), by least squares a quadratic and a line, read at 8192.
constexpr std::array<double, 8> kLayerTimes{12.4057201385498,   28.454231262207003, 39.43479309082031,
                                            52.60663909912111,  70.75289154052746,  82.6971145629883,
                                            106.13850097656245, 123.1998901367187};
constexpr std::array<double, 8> kOtherTimes{31.97360305786134, 56.27244796752933,  86.6235107421875,
                                            121.2523483276367, 141.90354614257797, 177.68662719726558,
                                            197.4156311035157, 225.79444885253918};
// All-reduce of 1, 2, 4 … 1024 MB over 2, 4, 8 devices, ms.
constexpr double kAllReduce[3][11] = {
    {0.0703, 0.07932, 0.09008, 0.1084, 0.1434, 0.2281, 0.3924, 0.7417, 1.3887, 2.6886, 5.1594},
    {0.07981, 0.09109, 0.1091, 0.1581, 0.2183, 0.3205, 0.5848, 1.0725, 2.0709, 3.7352, 7.1874},
    {0.07895, 0.1094, 0.1333, 0.1827, 0.2941, 0.4157, 0.6519, 1.2826, 2.3584, 4.6768, 8.1409}};

int log2_of(int n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

// Least squares over x = 1 … n, in centred coordinates so that the normal equations are diagonal; value at `at`.
template <size_t N>
double fitted(const std::array<double, N>& y, double at, bool quadratic) {
  const double n = N, mean = (n + 1) / 2;
  double sy = 0, sxy = 0, sxx = 0, sqy = 0, sqq = 0;
  const double spread = (n * n - 1) / 12;  // mean of (x − mean)²
  for (size_t i = 0; i < N; ++i) {
    const double x = static_cast<double>(i + 1) - mean, q = x * x - spread;
    sy += y[i], sxy += x * y[i], sxx += x * x, sqy += q * y[i], sqq += q * q;
  }
  const double x = at - mean;
  return sy / n + sxy / sxx * x + (quadratic ? sqy / sqq * (x * x - spread) : 0);
}
double layer_time() { return fitted(kLayerTimes, 2, true); }
double other_time() { return fitted(kOtherTimes, 2, false); }

// Half an all-reduce of so many MB over w devices: measured, or the line through all sizes.
double gather_time(int w, double mb) {
  const auto& row = kAllReduce[log2_of(w) - 1];
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (int i = 0; i < 11; ++i) {
    const double x = std::exp2(i);
    if (x == mb) return row[i] / 2;
    sx += x, sy += row[i] / 2, sxx += x * x, sxy += x * row[i] / 2;
  }
  const double slope = (11 * sxy - sx * sy) / (11 * sxx - sx * sx);
  return slope * mb + (sy - slope * sx) / 11;
}

// ms per MB of an all-reduce over data-parallel ranks, whether their devices are neighbours (no tensor parallelism) or
// not.
double reduce_rate(int ranks, bool neighbours) {
  if (ranks == 8) return 1 / 160.445;
  if (ranks == 4) return 1 / (neighbours ? 164.272 : 165.493);
  if (ranks == 2) return 1 / (neighbours ? 155.647 : 153.933);
  return 0;
}
double transfer_rate(int stages) { return stages == 2 ? 1 / 147.32 : stages == 4 ? 1 / 133.469 : 1 / 108.616; }

int data_ranks(const GalvatronPlan& p) { return kDevices / p.stages / p.tensor; }

// Seconds of one layer and one micro-batch, with or without the gradients' all-reduce.
double layer_seconds(const GalvatronPlan& p, const GalvatronLayer& l, bool reduce) {
  const int data = data_ranks(p);
  const double samples = kBatch / p.chunks / data;
  const double forward = layer_time() * samples / p.tensor, backward = (l.recompute ? 3 : 2) * forward;
  const double message = (data - 1) * (kParameters / p.tensor / data);  // twice, in bf16
  const double rate = reduce_rate(data, p.tensor == 1);
  double time = forward + backward;
  if (data > 1) {
    const double sent = reduce ? message : 0, slow_send = sent * rate * kOverlap, slow_compute = backward * kOverlap;
    time = forward + (slow_send > slow_compute ? slow_compute + (sent - slow_compute / (rate * kOverlap)) * rate
                                               : slow_send + backward - slow_send / kOverlap);
  }
  if (p.tensor > 1) time += gather_time(p.tensor, samples * kMessage) * 6 * (l.recompute ? 1.5 : 1);
  if (l.zero3) time += message / 2 * rate;
  // The transfer between stages, shared out over the layers.
  if (p.stages > 1) time += p.stages * 2 * samples * kMessage * transfer_rate(p.stages) / kLayers;
  return time / 1000;
}

// Embedding in the first stage, head in the last.
double other_seconds(const GalvatronPlan& p, int stage) {
  if (stage > 0 && stage + 1 < p.stages) return 0;
  const int data = kDevices / p.stages / p.vocab_tensor;
  const double samples = kBatch / p.chunks / data, half = p.stages == 1 ? 1 : 0.5;
  double time = 3 * half * other_time() * samples / p.vocab_tensor;
  if (p.vocab_tensor > 1) time += 2 * half * gather_time(p.vocab_tensor, samples * kMessage);
  return time / 1000;
}

double zero_share(const GalvatronPlan& p, int data, bool zero3) {
  if (data == 1) return 1;
  const double share = 1.0 / data + 0.003, more = p.chunks > 1 ? 1.25 : 1;  // gradients in f32 over several chunks
  return (zero3 ? share : 7.0 / 8 * share + 1.0 / 8) * more;
}

// MB of one layer's states, and of what it keeps of one micro-batch.
double layer_states(const GalvatronPlan& p, const GalvatronLayer& l) {
  return 4 * kParameters / p.tensor * zero_share(p, data_ranks(p), l.zero3);
}
double layer_kept(const GalvatronPlan& p, const GalvatronLayer& l) {
  return (l.recompute ? kRecomputed : 2088.28955078125) / p.tensor *
         static_cast<double>(kBatch / p.chunks / data_ranks(p));
}

// Whole MB of one layer in a stage.
int layer_memory(const GalvatronPlan& p, const GalvatronLayer& l, int stage) {
  const double in_flight = p.stages == 1 ? 1 : p.stages - stage;
  return static_cast<int>(std::ceil(layer_states(p, l) + layer_kept(p, l) * in_flight));
}

constexpr int kContext = 1024;
// The context, and the gather buffer of the widest tensor parallelism.
int gather_buffer(const GalvatronPlan& p) {
  const int wide = std::max(p.tensor, p.vocab_tensor);
  return static_cast<int>(static_cast<double>(kBatch) / p.chunks / (kDevices / p.stages / wide) * kMessage);
}
int fixed_memory(const GalvatronPlan& p) { return kContext + gather_buffer(p); }

int other_memory(const GalvatronPlan& p, int stage) {
  const int data = kDevices / p.stages / p.vocab_tensor;
  const double samples = kBatch / p.chunks / data;
  double states = 0, kept = 0;
  if (p.stages == 1)
    states = 16768.54296875, kept = 5487.8828125;
  else if (stage == 0)
    states = 8351.5009765625, kept = 787.1483154296875 * p.stages;
  else if (stage + 1 == p.stages)
    states = 8351.5556640625, kept = 5073.4478759765625;
  const int own =
      static_cast<int>(std::ceil((states * zero_share(p, data, false) + kept * samples) / p.vocab_tensor + kContext));
  return own + gather_buffer(p);
}

// Its pipeline: sees the first stage, the last and the sum; the all-reduce that no later work hides comes on top.
double pipeline_seconds(const GalvatronPlan& p, const std::vector<double>& compute,
                        const std::vector<double>& reduced) {
  double sum = 0, later = 0, rest = 0;
  for (size_t i = 0; i < compute.size(); ++i) {
    sum += compute[i];
    if (i > 0) later += compute[i];
    rest = std::max(rest, reduced[i] - sum);
  }
  const double first = compute.front(), fill = std::max(std::min(p.stages - 1, p.chunks - 1) * first, later);
  return std::max(sum + compute.back() * (p.chunks - 1), fill + first * std::max(0, p.chunks + 1 - p.stages)) + rest;
}

void check(const GalvatronPlan& p) {
  const auto power = [](int n) { return n == 1 || n == 2 || n == 4 || n == 8; };
  if (!power(p.stages) || !power(p.tensor) || !power(p.vocab_tensor) || p.stages * p.tensor > kDevices ||
      p.stages * p.vocab_tensor > kDevices || p.layers.size() != kLayers)
    throw Error(ErrorKind::usage,
                "galvatron: {} stages, tensor {} and {}, {} layers; powers of two within {} devices, {} layers",
                p.stages, p.tensor, p.vocab_tensor, p.layers.size(), kDevices, kLayers);
}

std::vector<int> even(int stages) {
  std::vector<int> n(stages, kLayers / stages);
  n.back() += kLayers % stages;
  return n;
}

// What a stage can cost: time without and with the all-reduce, and the layers of each kind.
struct StageChoice {
  double compute, reduced;
  std::array<int, 4> count;  // zero3 + 2·recompute
};

std::vector<StageChoice> stage_choices(const GalvatronPlan& p, int stage, int layers) {
  const int data = data_ranks(p), budget = kGalvatronMemory - other_memory(p, stage);
  std::array<double, 4> compute{}, reduced{};
  std::array<int, 4> memory{};
  for (int k = 0; k < 4; ++k) {
    const GalvatronLayer l{k % 2 == 1, k >= 2};
    compute[k] = layer_seconds(p, l, false), reduced[k] = layer_seconds(p, l, true),
    memory[k] = layer_memory(p, l, stage);
  }
  std::vector<StageChoice> kept;
  for (int a = 0; a <= layers; ++a)
    for (int b = 0; a + b <= layers; ++b)
      for (int c = 0; a + b + c <= layers; ++c) {
        const std::array<int, 4> n{layers - a - b - c, a, b, c};
        if (data == 1 && n[1] + n[3] > 0) continue;  // nothing to shard
        StageChoice x{other_seconds(p, stage), 0, n};
        int used = 0;
        for (int k = 0; k < 4; ++k)
          x.compute += n[k] * compute[k], x.reduced += n[k] * reduced[k], used += n[k] * memory[k];
        if (used > budget) continue;
        const auto no_worse = [](const StageChoice& o, const StageChoice& w) {
          return o.compute <= w.compute && o.reduced <= w.reduced;
        };
        if (std::any_of(kept.begin(), kept.end(), [&](const StageChoice& o) { return no_worse(o, x); })) continue;
        std::erase_if(kept, [&](const StageChoice& o) { return no_worse(x, o); });
        kept.push_back(x);
      }
  return kept;
}

}  // namespace

double galvatron_throughput(const GalvatronPlan& p) {
  check(p);
  std::vector<double> compute, reduced;
  int u = 0;
  for (int s = 0; s < p.stages; ++s) {
    compute.push_back(other_seconds(p, s));
    reduced.push_back(0);
    for (int i = 0; i < even(p.stages)[s]; ++i, ++u) {
      compute.back() += layer_seconds(p, p.layers[u], false);
      reduced.back() += layer_seconds(p, p.layers[u], true);
    }
  }
  return kBatch / pipeline_seconds(p, compute, reduced);
}

Instance galvatron_instance(const GalvatronPlan& p, PipelineSchedule schedule) {
  const auto ps = [](double ms) { return std::llround(ms * 1e9); };
  const auto bytes = [](double mb) { return static_cast<int64_t>(std::ceil(mb * 1048576)); };
  const int data = data_ranks(p), vocab_data = kDevices / p.stages / p.vocab_tensor;
  const double samples = kBatch / p.chunks / data, vocab_samples = kBatch / p.chunks / vocab_data;
  const double message = (data - 1) * (kParameters / p.tensor / data), rate = reduce_rate(data, p.tensor == 1);
  // Of its six gathers of a layer half belong to the forward; another pass with recomputation has them again.
  const double gathers = p.tensor > 1 ? 3 * gather_time(p.tensor, samples * kMessage) : 0;
  Instance in{.num_stages = p.stages, .num_micro = p.chunks, .schedule = schedule};
  std::vector<CostVector> layer;
  for (int k = 0; k < 4; ++k) {
    const GalvatronLayer l{k % 2 == 1, k >= 2};
    const double forward = layer_time() * samples / p.tensor;
    layer.push_back({.forward = ps(forward + gathers + (l.zero3 ? message / 2 * rate : 0)),
                     .backward = ps(forward + gathers),
                     .weight = ps(forward),
                     .recompute = l.recompute ? ps(forward + gathers) : 0,
                     .sync = ps(message * rate),
                     .persistent = {bytes(layer_states(p, l))},
                     .held = {bytes(layer_kept(p, l))}});
  }
  // Half of the vocabulary's work each; memory as its stages of both ends have it, and with one stage in all.
  const double forward = other_time() / 2 * vocab_samples / p.vocab_tensor;
  const double vocab_gather = p.vocab_tensor > 1 ? gather_time(p.vocab_tensor, vocab_samples * kMessage) / 2 : 0;
  const auto end = [&](double states, double kept) {
    return CostVector{.forward = ps(forward + vocab_gather),
                      .backward = ps(forward + vocab_gather),
                      .weight = ps(forward),
                      .persistent = {bytes(states * zero_share(p, vocab_data, false) / p.vocab_tensor)},
                      .held = {bytes(kept * vocab_samples / p.vocab_tensor)}};
  };
  const bool one = p.stages == 1;
  in.cost.push_back({end(one ? 16768.54296875 / 2 : 8351.5009765625, one ? 5487.8828125 / 2 : 787.1483154296875)});
  in.cost.insert(in.cost.end(), kLayers, layer);
  in.cost.push_back({end(one ? 16768.54296875 / 2 : 8351.5556640625, one ? 5487.8828125 / 2 : 5073.4478759765625)});
  const int64_t send = p.stages > 1 ? ps(samples * kMessage * transfer_rate(p.stages)) : 0;
  for (size_t u = 0; u + 1 < in.cost.size(); ++u) {
    in.within.emplace_back(in.cost[u].size() * in.cost[u + 1].size());
    in.across.emplace_back(in.within.back().size(), EdgeCost{send, send});
    in.layer_class.push_back(u == 0 ? 0 : 1);
  }
  in.layer_class.push_back(2);
  // Its context and the gather buffer are in every stage; they are what is left of a stage without layers.
  for (int s = 0; s < p.stages; ++s) {
    const bool ends = s == 0 || s + 1 == p.stages;
    const int room = kGalvatronMemory - static_cast<int>(in.cost.size()) - fixed_memory(p) - (ends ? 1 : 0);
    in.capacity.push_back({int64_t{std::max(0, room)} * 1048576, 0, 0});
  }
  return in;
}

Assignment galvatron_assignment(const GalvatronPlan& p) {
  check(p);
  Assignment a{{0}, {0}};
  int u = 0;
  for (int s = 0; s < p.stages; ++s)
    for (int i = 0; i < even(p.stages)[s]; ++i, ++u) {
      a.stage.push_back(s);
      a.strategy.push_back((p.layers[u].zero3 ? 1 : 0) + (p.layers[u].recompute ? 2 : 0));
    }
  a.stage.push_back(p.stages - 1), a.strategy.push_back(0);
  return a;
}

int galvatron_memory(const GalvatronPlan& p, const Assignment& a) {
  std::vector<int> used;
  for (int s = 0; s < p.stages; ++s) used.push_back(other_memory(p, s));
  for (int u = 1; u <= kLayers; ++u)
    used[a.stage[u]] += layer_memory(p, {a.strategy[u] % 2 == 1, a.strategy[u] >= 2}, a.stage[u]);
  return *std::max_element(used.begin(), used.end());
}

int galvatron_memory(const GalvatronPlan& p) {
  check(p);
  int most = 0, u = 0;
  for (int s = 0; s < p.stages; ++s) {
    int used = other_memory(p, s);
    for (int i = 0; i < even(p.stages)[s]; ++i, ++u) used += layer_memory(p, p.layers[u], s);
    most = std::max(most, used);
  }
  return most;
}

// The pipeline's cost grows with every stage's time, and with what the all-reduce needs: per stage the choices that no
// other beats in both suffice, and are few.
GalvatronAnswer galvatron_search() {
  GalvatronAnswer best;
  for (int stages = 1; stages <= kDevices; stages *= 2)
    for (int tensor = 1; stages * tensor <= kDevices; tensor *= 2)
      for (int vocab = 1; stages * vocab <= kDevices; vocab *= 2)
        for (int chunks = stages; chunks <= kBatch; chunks *= 2) {
          GalvatronPlan p{.stages = stages, .chunks = chunks, .tensor = tensor, .vocab_tensor = vocab, .layers = {}};
          if (kBatch / chunks % data_ranks(p) != 0 || kBatch / chunks % (kDevices / stages / vocab) != 0) continue;
          ++best.plans;
          std::vector<std::vector<StageChoice>> choices;
          for (int s = 0; s < stages; ++s) choices.push_back(stage_choices(p, s, even(stages)[s]));
          if (std::any_of(choices.begin(), choices.end(), [](const auto& c) { return c.empty(); })) continue;
          std::vector<size_t> at(stages, 0);
          for (bool more = true; more;) {
            std::vector<double> compute, reduced;
            for (int s = 0; s < stages; ++s) {
              compute.push_back(choices[s][at[s]].compute);
              reduced.push_back(choices[s][at[s]].reduced);
            }
            if (const double t = kBatch / pipeline_seconds(p, compute, reduced); t > best.throughput) {
              best.throughput = t;
              p.layers.clear();
              for (int s = 0; s < stages; ++s)
                for (int k = 3; k >= 0; --k)
                  p.layers.insert(p.layers.end(), choices[s][at[s]].count[k], GalvatronLayer{k % 2 == 1, k >= 2});
              best.plan = p;
            }
            int s = 0;
            while (s < stages && ++at[s] == choices[s].size()) at[s++] = 0;
            more = s < stages;
          }
        }
  return best;
}

}  // namespace tern
