#include "plan/inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/rounding.h"
#include "base/wide_type.h"
#include "hardware/rates.h"
#include "plan/comm_cost.h"
#include "plan/decode_units.h"
#include "plan/inference_job.h"
#include "spec/attended_pairs.h"
#include "spec/unit_cost.h"
#include "spec/unit_products.h"

namespace tern {
namespace {

// Units first … last − 1 of a stage; embedding and head count to the first and last layer.
struct Stage {
  size_t first = 0, last = 0;
  int64_t read_bytes = 0;  // of weights, by a pass with logits
};
std::vector<Stage> stages_of(const ModelSpec& spec, int64_t count) {
  std::vector<Stage> out(static_cast<size_t>(count));
  size_t u = 0;
  for (int64_t s = 0; s < count; ++s) {
    Stage& stage = out[static_cast<size_t>(s)];
    stage.first = u;
    const int64_t end = (s + 1) * spec.layers / count;  // layers before it lie here
    while (u < spec.units.size() && (spec.units[u].layer < end || s + 1 == count)) ++u;
    stage.last = u;
  }
  return out;
}

CostQuery query_of(const InferenceJob& job, const ServingLayout& layout, int64_t tokens) {
  return {.tokens = tokens,
          .attended_pairs = 0,  // of FLOPs, priced apart
          .dtype = job.dtype,
          .scratch = {},
          .tensor = layout.tensor,
          .expert = 1,
          .expert_tensor = layout.tensor};
}

// What one pass over a stage's units does: `rows` new tokens that attend to `pairs` keys in all (per head), of caches
// that hold `past` tokens together; and logits of the rows that want them.
struct Pass {
  int64_t rows = 0;
  double pairs = 0, past = 0;
  int64_t logits = 0;
  bool again = false;  // its weights were read by the pass before it
};
struct PassTimes {
  int64_t compute = 0, weights = 0, kv = 0, links = 0;
  int64_t all() const { return compute + weights + kv + links; }
  PassTimes& operator+=(const PassTimes& o) {
    compute += o.compute, weights += o.weights, kv += o.kv, links += o.links;
    return *this;
  }
};

constexpr int64_t kBeyondCaches = std::numeric_limits<int64_t>::max();

struct ServingPricing {
  const ModelSpec& spec;
  const InferenceJob& job;
  const Machine& machine;
  const ServingLayout& layout;

  const DeviceType& device() const { return machine.device; }
  // Weights that each pass reads stay in a cache from one to the next as far as they fit it; rows are written anew.
  int64_t read_weights(int64_t bytes, int64_t working_set) const {
    return ps_of(static_cast<double>(bytes), read_rate(device(), job.dtype, working_set, job.mapped_weights));
  }
  int64_t read(int64_t bytes) const { return ps_of(static_cast<double>(bytes), device().memory_bandwidth); }
  // Of what was measured where no cache holds what is read: what its place saves, or costs.
  int64_t saved_by_place(int64_t bytes, int64_t working_set, bool mapped) const {
    const double cold = read_rate(device(), job.dtype, kBeyondCaches, false);
    const double here = read_rate(device(), job.dtype, working_set, mapped);
    return ps_of(static_cast<double>(bytes), cold) - ps_of(static_cast<double>(bytes), here);
  }

  // By FLOPs: whole tiles of rows as they are, and what is left at a large product's pace, as kernels for few rows do
  // not fill whole tiles. Never falls as m grows.
  int64_t multiplied(int64_t m, int64_t n, int64_t k) const {
    const int64_t whole = matmul_ps(device(), job.dtype, m, n, k);
    const auto table = std::find_if(device().matmul.begin(), device().matmul.end(),
                                    [&](const MatmulRates& x) { return x.dtype == job.dtype; });
    if (table == device().matmul.end() || m % table->tile[0] == 0) return whole;
    constexpr int64_t kMany = 4096;
    const int64_t left = m % table->tile[0];
    const int64_t rest = counted_ps(static_cast<double>(matmul_ps(device(), job.dtype, kMany, n, k)) *
                                    static_cast<double>(left) / kMany);
    return std::min(whole, matmul_ps(device(), job.dtype, m - left, n, k) + rest);
  }

  // As measured for inference, with weights that no cache holds, less what reading them takes less where they lie; else
  // the larger of reading and of FLOPs. It is the weights' where their reading decides: of a measured time, where it is
  // half of it. What is measured holds the wait for the threads.
  void product(int64_t m, int64_t n, int64_t k, int64_t count, int64_t working_set, PassTimes& t) const {
    if (m <= 0 || count <= 0) return;
    const int64_t stored = stored_bytes(job.weights, n * k), in_place = read_weights(stored, working_set);
    const int64_t reading = in_place + read((m * k + m * n) * size_of(job.dtype));
    int64_t one = 0, weights = 0, launch = device().launch_ps;
    if (has_table(device(), job.dtype, ProductUse::inference)) {
      const int64_t measured = matmul_ps(device(), job.dtype, m, n, k, ProductUse::inference);
      const bool mapped = job.mapped_weights && working_set != kBeyondCaches;  // many rows hide what small pages cost
      one = std::max(read_weights(stored, 1), measured - saved_by_place(stored, working_set, mapped));
      weights = 2 * reading >= one ? one : 0;
      launch = 0;
    } else {
      const int64_t flops = multiplied(m, n, k);
      one = std::max(flops, reading);
      weights = reading >= flops ? in_place : 0;  // beside them rows are read and written
    }
    t.weights += counted_ps(count, weights);
    t.compute += counted_ps(count, one) - counted_ps(count, weights) + launch;
  }

  void products(const Unit& unit, int64_t rows, int64_t working_set, PassTimes& t) const {
    const MoeSpec* moe = moe_of(unit);
    for (const MatrixProduct& p : unit_products(unit, query_of(job, layout, rows))) {
      if (!moe || p.count == 1) {
        product(p.m, p.n, p.k, p.count, working_set, t);
        continue;
      }
      // Experts that some row meets, if rows choose evenly: X·(1 − (1 − K/X)^rows).
      const double experts = static_cast<double>(moe->experts), chosen = static_cast<double>(moe->top_k);
      const double met = experts * (1 - std::pow(1 - chosen / experts, static_cast<double>(rows)));
      const auto touched = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(met - 1e-9)), 1, moe->experts);
      product(ceil_div(rows * moe->top_k, touched), p.n, p.k, touched, working_set, t);
    }
  }

  void rest(const Unit& unit, int64_t rows, PassTimes& t) const {
    const CostQuery q = query_of(job, layout, rows);
    int64_t bytes = unit_cost(unit, q).forward_bytes_moved;
    for (const MatrixProduct& p : unit_products(unit, q))
      bytes -= (p.m * p.k + p.k * p.n + p.m * p.n) * p.count * size_of(job.dtype);
    t.compute += 2 * device().launch_ps +
                 ps_of(static_cast<double>(std::max<int64_t>(0, bytes)), elementwise_rate(device(), job.dtype));
  }

  void attention(const Unit& unit, const AttentionSpec& a, const Pass& pass, int64_t working_set, PassTimes& t) const {
    const AttentionRates rates = attention_rates(device(), job.dtype, a.head_dim);
    // A window bounds the keys a row meets.
    const double rows = static_cast<double>(std::max<int64_t>(pass.rows, 1));
    const double most = a.window > 0 ? static_cast<double>(a.window) * rows : pass.pairs;
    const double pairs = std::min(pass.pairs, most), past = pass.pairs > 0 ? pass.past * pairs / pass.pairs : 0;
    const double width =
        static_cast<double>(ceil_div(a.heads, layout.tensor) * a.head_dim + ceil_div(a.value_rows(), layout.tensor));
    // A decoded row has no neighbours to share its keys with: `decode` speaks of it.
    const double half = pass.rows > 1 && pass.pairs > pass.past ? rates.prefill_half * rows / (2 * pairs) : 0;
    const int64_t flops = ps_of(2 * pairs * width * (1 + half), peak_flops(device(), job.dtype) * rates.prefill);
    const double bytes = past * static_cast<double>(kv_bytes_per_token(unit, job, layout.tensor));
    const double sequences = pass.again ? rows : 1;  // a prompt's rows are of one
    const int64_t read_ps = ps_of(bytes * (1 + rates.decode_half * sequences / std::max(past, 1.0)),
                                  device().memory_bandwidth * rates.decode);
    const auto whole = static_cast<int64_t>(bytes);
    const int64_t least = ps_of(bytes, read_rate(device(), job.dtype, 1, false));
    const int64_t saved = saved_by_place(whole, working_set, false);
    const int64_t reading = saved == 0 ? read_ps : std::max(std::min(read_ps, least), read_ps - saved);
    (reading > flops ? t.kv : t.compute) += std::max(reading, flops) + device().launch_ps;
  }

  // Unit `u` of a stage.
  void pass_unit(size_t u, const Stage& s, const Pass& pass, PassTimes& t) const {
    const int64_t rows = pass.rows, bytes = rows * spec.width * size_of(job.dtype);
    const int64_t working_set = pass.again ? s.read_bytes : kBeyondCaches;
    const Unit& unit = spec.units[u];
    if (const auto* head = std::get_if<HeadSpec>(&unit.spec)) {
      if (pass.logits == 0) return;
      const int64_t vocab = ceil_div(head->vocab, layout.tensor);
      product(pass.logits, vocab, head->width, 1, working_set, t);
      // Softmax, filters and the draw go over the logits a few times.
      const auto logits = static_cast<double>(pass.logits * vocab * 4);
      t.compute += device().sampling > 0 ? ps_of(logits, device().sampling)
                                         : ps_of(3 * logits, elementwise_rate(device(), job.dtype));
      if (layout.tensor > 1) t.links += all_gather_ps(machine, {layout.tensor, 1}, pass.logits * head->vocab * 4);
      return;
    }
    if (std::holds_alternative<EmbedSpec>(unit.spec)) {
      t.compute +=
          2 * device().launch_ps + ps_of(2.0 * static_cast<double>(bytes), elementwise_rate(device(), job.dtype));
      return;
    }
    products(unit, rows, working_set, t);
    rest(unit, rows, t);
    if (const AttentionSpec* a = attention_of(unit)) attention(unit, *a, pass, working_set, t);
    if (layout.tensor > 1) t.links += all_reduce_ps(machine, {layout.tensor, 1}, bytes);
  }

  PassTimes stage(const Stage& s, const Pass& pass) const {
    PassTimes t;
    for (size_t u = s.first; u < s.last; ++u) pass_unit(u, s, pass, t);
    if (s.last < spec.units.size())
      t.links += send_ps(machine, layout.tensor, layout.devices() <= machine.node.num_devices,
                         pass.rows * spec.width * size_of(job.dtype));
    return t;
  }
};

// A token of each of `users` users, half of the answer written.
Pass decode_pass(const InferenceJob& job, int64_t users) {
  const double context = job.lengths ? job.lengths->decode_context()
                                     : static_cast<double>(job.prompt) + static_cast<double>(job.answer) / 2;
  const double all = context * static_cast<double>(users);
  return {users, all, all, users, true};
}

// With what a pass reads of weights: of tables of rows to look up, nothing.
std::vector<Stage> priced_stages(const ModelSpec& spec, const InferenceJob& job, const ServingLayout& layout) {
  std::vector<Stage> stages = stages_of(spec, layout.stages);
  for (Stage& s : stages)
    for (size_t u = s.first; u < s.last; ++u) {
      const Unit& unit = spec.units[u];
      if (std::holds_alternative<EmbedSpec>(unit.spec)) continue;
      int64_t numbers = unit_cost(unit, query_of(job, layout, 1)).parameters;
      if (const auto* head = std::get_if<HeadSpec>(&unit.spec); head && head->tied)
        numbers += ceil_div(head->vocab, layout.tensor) * head->width;
      s.read_bytes += stored_bytes(job.weights, numbers);
    }
  return stages;
}

// Σ f(i), first ≤ i ≤ last, of an f that is linear but for a few corners: a stretch whose inner points lie on the line
// between its ends counts as that line, another is halved. Short ones are added up.
template <class F>
double sum_of_line(const F& f, int64_t first, int64_t last) {
  const int64_t n = last - first + 1;
  double sum = 0;
  if (n <= 64) {
    for (int64_t i = first; i <= last; ++i) sum += f(i);
    return sum;
  }
  const double from = f(first), to = f(last);
  const auto on_line = [&](int64_t i) {
    const double line = from + (to - from) * static_cast<double>(i - first) / static_cast<double>(n - 1);
    return std::abs(f(i) - line) <= 2 + 1e-6 * line;
  };
  if (on_line(first + n / 4) && on_line(first + n / 2) && on_line(first + n / 4 * 3))
    return (from + to) / 2 * static_cast<double>(n);
  return sum_of_line(f, first, first + n / 2 - 1) + sum_of_line(f, first + n / 2, last);
}

// Bytes per pass that come from other tiers, over the device's share of the links. `disk_rate`: of a node, to read or
// to write.
int64_t transfer_ps(const Machine& m, double host_bytes, double disk_bytes, double disk_rate) {
  const double devices = static_cast<double>(m.node.num_devices);
  const int64_t link = ps_of(host_bytes + disk_bytes, m.node.host_link_bandwidth);
  if (disk_bytes == 0) return link;
  // Where device and host are one memory, what is read from disk crosses no other link.
  return std::max(m.host_capacity() > 0 ? link : 0, ps_of(disk_bytes, disk_rate / devices));
}
int64_t transfer_ps(const Machine& m, int64_t host_bytes, int64_t disk_bytes) {
  return transfer_ps(m, static_cast<double>(host_bytes), static_cast<double>(disk_bytes), m.node.disk_read);
}

// Of one prompt's keys and values what lies on other tiers is written once, and read by each chunk after it; weights
// pass with each chunk.
int64_t prompt_moved_ps(const Machine& m, const InferenceJob& job, const ServingMemory& memory, int64_t prompt) {
  const int64_t chunks = ceil_div(prompt, job.chunk);
  const int64_t weights = counted_ps(chunks, transfer_ps(m, memory.weights_on[1], memory.weights_on[2]));
  if (memory.kv == 0 || memory.kv_on[1] + memory.kv_on[2] == 0) return weights;
  const double context = job.lengths ? job.lengths->mean_context() : static_cast<double>(job.context());
  const double token = static_cast<double>(memory.kv_per_user) / context;
  const double host = token * static_cast<double>(memory.kv_on[1]) / static_cast<double>(memory.kv);
  const double disk = token * static_cast<double>(memory.kv_on[2]) / static_cast<double>(memory.kv);
  const double written = static_cast<double>(prompt);
  const double read =
      static_cast<double>(job.chunk) * static_cast<double>(chunks) * static_cast<double>(chunks - 1) / 2;
  return std::min(kMostPs, weights + transfer_ps(m, host * read, disk * read, m.node.disk_read) +
                               transfer_ps(m, host * written, disk * written, m.node.disk_write));
}

// The lengths that count, as prompt_compute_ps has them.
std::vector<PromptGroup> prompts_of(const InferenceJob& job) {
  if (!job.lengths) return {{job.prompt, 1}};
  std::vector<PromptGroup> out = job.lengths->prompt_groups();
  out.push_back({job.lengths->high_prompt(), 0});
  return out;
}

// Chunks follow each other through the stages; the last and dearest one passes all of them. Prompts share their first
// chunks.
struct PromptTimes {
  const ServingPricing& price;
  const std::vector<Stage>& stages;
  std::map<int64_t, int64_t> known = {};  // ps, of whole chunks that others follow

  int64_t pass(int64_t at, int64_t rows, bool last) const {
    const auto pairs = static_cast<double>(attended_pairs(rows, at, 0));
    const Pass pass{rows, pairs, static_cast<double>(at + rows), last ? 1 : 0};
    int64_t sum = 0, most = 0;
    for (const Stage& s : stages) {
      const int64_t ps = price.stage(s, pass).all();
      sum += ps, most = std::max(most, ps);
    }
    return last ? sum : most;
  }
  double chunk(int64_t i) {
    const auto [at, fresh] = known.try_emplace(i, 0);
    if (fresh) at->second = pass(i * price.job.chunk, price.job.chunk, false);
    return static_cast<double>(at->second);
  }
  int64_t of(int64_t prompt) {
    const int64_t whole = (prompt - 1) / price.job.chunk, at = whole * price.job.chunk;
    const double before = sum_of_line([&](int64_t i) { return chunk(i); }, 0, whole - 1);
    return counted_ps(before + static_cast<double>(pass(at, prompt - at, true)));
  }
};

}  // namespace

std::string why_illegal(const ModelSpec& spec, const Machine& m, const ServingLayout& l) {
  const int64_t t = l.tensor, node = m.node.num_devices;
  if (l.devices() > m.num_devices()) return fmt::format("{} devices of {}", l.devices(), m.num_devices());
  if (l.stages > spec.layers) return fmt::format("{} stages of {} layers", l.stages, spec.layers);
  if (t > node && t % node) return fmt::format("tensor {}: does not fill nodes of {} devices", t, node);
  for (const Unit& unit : spec.units) {
    if (const AttentionSpec* a = attention_of(unit)) {
      if (a->heads % t) return fmt::format("tensor {}: does not divide {} heads", t, a->heads);
      if (a->kv_heads % t && t % a->kv_heads)
        return fmt::format("tensor {}: {} key-value heads are neither split nor repeated evenly", t, a->kv_heads);
    }
    if (const MlpSpec* p = mlp_of(unit); p && p->hidden % t)
      return fmt::format("tensor {}: does not divide the hidden width {}", t, p->hidden);
    if (const MoeSpec* e = moe_of(unit); e && (e->hidden % t || e->shared_hidden % t))
      return fmt::format("tensor {}: does not divide the experts' width {}", t, e->hidden);
  }
  return "";
}

ServingMemory serving_memory(const ModelSpec& spec, const InferenceJob& job, const Machine& m,
                             const ServingLayout& layout, int64_t users, bool kv_first) {
  ServingMemory fullest;
  const int64_t rows = std::min(job.chunk, job.prompt) + (users > 1 ? users : 0);  // as the engine's iteration_tokens
  const int64_t pages = ceil_div(job.context(), job.page) * job.page;
  const std::vector<Stage> stages = stages_of(spec, layout.stages);
  for (size_t s = 0; s < stages.size(); ++s) {
    ServingMemory x;
    int64_t token = 0, fixed = 0;
    for (size_t u = stages[s].first; u < stages[s].last; ++u) {
      const Unit& unit = spec.units[u];
      const UnitCost cost = unit_cost(unit, query_of(job, layout, rows));
      x.weights += stored_bytes(job.weights, cost.parameters);
      fixed += cost.parameter_bytes - cost.parameters * size_of(job.dtype);
      token += kv_bytes_per_token(unit, job, layout.tensor);
      if (const auto* head = std::get_if<HeadSpec>(&unit.spec)) {
        if (head->tied && layout.stages > 1)  // the embedding lies in another stage
          x.weights += stored_bytes(job.weights, ceil_div(head->vocab, layout.tensor) * head->width);
        x.logits = users * ceil_div(head->vocab, layout.tensor) * size_of(wide_type(job.dtype));
      } else {
        x.activations = std::max(x.activations, 2 * cost.output_bytes + cost.unsaved_workspace);
      }
    }
    x.weights += fixed;
    if (job.lengths) {
      x.kv_per_user = token * ceil_div(std::llround(job.lengths->mean_context()), job.page) * job.page;
      x.kv = token * job.lengths->room(users, job.page);
    } else {
      x.kv_per_user = token * pages;
      x.kv = x.kv_per_user * users;
    }
    if (s == 0 || x.total() > fullest.total()) fullest = x;
  }
  // Working memory stays on the device.
  TierBytes room{m.device_capacity() - fullest.activations - fullest.logits, 0, 0};
  if (job.spill) room[1] = m.host_capacity(), room[2] = m.disk_capacity();
  const auto place = [&](int64_t bytes, TierBytes& on) {
    for (size_t tier = 0; tier < kTiers; ++tier) {
      on[tier] = std::clamp<int64_t>(bytes, 0, std::max<int64_t>(room[tier], 0));
      room[tier] -= on[tier], bytes -= on[tier];
    }
    return bytes;
  };
  int64_t left = std::max<int64_t>(0, -room[0]);
  if (kv_first)
    left += place(fullest.kv, fullest.kv_on), left += place(fullest.weights, fullest.weights_on);
  else
    left += place(fullest.weights, fullest.weights_on), left += place(fullest.kv, fullest.kv_on);
  fullest.fits = left == 0;
  fullest.missing_bytes = left;
  fullest.tier = job.spill && m.disk_capacity() > 0   ? Tier::disk
                 : job.spill && m.host_capacity() > 0 ? Tier::host
                                                      : Tier::device;
  if (m.device_capacity() < fullest.activations + fullest.logits) fullest.tier = Tier::device;
  return fullest;
}

std::vector<int64_t> decode_unit_ps(const ModelSpec& spec, const InferenceJob& job, const Machine& m, int64_t users) {
  const ServingLayout alone;
  const ServingPricing price{spec, job, m, alone};
  const Stage whole = priced_stages(spec, job, alone).front();
  const Pass pass = decode_pass(job, std::max<int64_t>(users, 1));
  std::vector<int64_t> ps;
  for (size_t u = whole.first; u < whole.last; ++u) {
    PassTimes t;
    price.pass_unit(u, whole, pass, t);
    ps.push_back(t.all());
  }
  return ps;
}

ServingTimes serving_times(const ModelSpec& spec, const InferenceJob& job, const Machine& m,
                           const ServingLayout& layout, const ServingMemory& memory, int64_t users) {
  return serving_times(spec, job, m, layout, memory, users, prompt_compute_ps(spec, job, m, layout));
}

std::vector<int64_t> prompt_compute_ps(const ModelSpec& spec, const InferenceJob& job, const Machine& m,
                                       const ServingLayout& layout) {
  const ServingPricing price{spec, job, m, layout};
  const std::vector<Stage> stages = priced_stages(spec, job, layout);
  PromptTimes times{price, stages};
  std::vector<int64_t> out;
  for (const PromptGroup& g : prompts_of(job)) out.push_back(times.of(g.tokens));
  return out;
}

ServingTimes serving_times(const ModelSpec& spec, const InferenceJob& job, const Machine& m,
                           const ServingLayout& layout, const ServingMemory& memory, int64_t users,
                           const std::vector<int64_t>& prompt_ps) {
  const ServingPricing price{spec, job, m, layout};
  const std::vector<Stage> stages = priced_stages(spec, job, layout);
  ServingTimes out;

  double mean = 0;
  const std::vector<PromptGroup> prompts = prompts_of(job);
  for (size_t i = 0; i < prompts.size(); ++i) {
    out.high_prefill_ps = std::max(prompt_ps[i], prompt_moved_ps(m, job, memory, prompts[i].tokens));
    mean += prompts[i].share * static_cast<double>(out.high_prefill_ps);
  }
  out.prefill_ps = job.lengths ? std::llround(std::min(mean, static_cast<double>(kMostPs))) : out.high_prefill_ps;

  // Groups of users follow each other through the stages.
  const int64_t groups = std::clamp<int64_t>(users, 1, layout.stages),
                each = ceil_div(std::max<int64_t>(users, 1), groups);
  const Pass pass = decode_pass(job, each);
  PassTimes sum, worst;
  for (const Stage& s : stages) {
    const PassTimes t = price.stage(s, pass);
    sum += t;
    if (t.all() > worst.all()) worst = t;
  }
  const bool round_trip = sum.all() >= counted_ps(groups, worst.all());
  const int64_t times = round_trip ? 1 : groups;
  const PassTimes& counts = round_trip ? sum : worst;
  out.compute_ps = counted_ps(times, counts.compute), out.weights_ps = counted_ps(times, counts.weights);
  out.kv_ps = counted_ps(times, counts.kv), out.links_ps = counted_ps(times, counts.links);
  const int64_t weights_passed = transfer_ps(m, memory.weights_on[1], memory.weights_on[2]);
  out.spilled_ps =
      std::min(kMostPs, counted_ps(groups, weights_passed) + transfer_ps(m, memory.kv_on[1], memory.kv_on[2]));
  const int64_t on_device = std::min(kMostPs, out.compute_ps + out.weights_ps + out.kv_ps + out.links_ps);
  out.decode_ps = std::max(on_device, out.spilled_ps);
  if (out.spilled_ps > on_device) {
    const bool disk = memory.weights_on[2] + memory.kv_on[2] > 0;
    out.binds = disk ? "disk" : "the host link";
  } else {
    const int64_t most = std::max({out.compute_ps, out.weights_ps, out.kv_ps, out.links_ps});
    out.binds = most == out.weights_ps ? "reading weights"
                : most == out.kv_ps    ? "reading keys and values"
                : most == out.links_ps ? "links"
                                       : "products";
  }
  out.swap_ps = ps_of(static_cast<double>(memory.kv_per_user), m.node.host_link_bandwidth);
  return out;
}

}  // namespace tern
