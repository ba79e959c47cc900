#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "planner/words/serving_refusal.h"

namespace tern {
namespace {

constexpr size_t kMostServingAdvice = 4;

// What near the request would do, the least intrusive first.
std::vector<std::string> advice(const ServingQuestion& q) {
  const ModelSpec& spec = q.spec;
  const Cluster& cluster = q.cluster;
  const InferenceJob& job = q.job;
  std::vector<std::string> out;
  const auto attempt = [&](const std::string& words, const InferenceJob& changed, const Cluster& machines) {
    if (out.size() >= kMostServingAdvice || !plan_serving(spec, machines, changed).found) return false;
    out.push_back(words);
    return true;
  };
  if (!job.spill && !q.all_on_device()) {
    InferenceJob j = job;
    j.spill = true;
    attempt("--offload all (slower: weights, keys or values from the host or disk)", j, cluster);
  }
  for (const KvType kv : {KvType::q8, KvType::q4}) {
    InferenceJob j = job;
    j.kv = kv;
    if (!q.vllm && kv > job.kv && attempt(fmt::format("--kv-dtype {}", name_of(kv)), j, cluster)) break;
  }
  for (const StoredType weights : {StoredType::q8, StoredType::q4}) {
    InferenceJob j = job;
    j.weights = weights;
    if (!q.all_on_device() && weights > job.weights &&
        attempt(fmt::format("--weight-dtype {}", name_of(weights)), j, cluster))
      break;
  }
  if (q.all_on_device() && job.dtype == DType::f32) {
    InferenceJob j = job;
    j.dtype = DType::bf16, j.weights = StoredType::bf16, j.kv = std::max(job.kv, KvType::bf16);
    attempt("--dtype bf16", j, cluster);
  }
  // The most that serve: more than half of a number that does not.
  const auto serves = [&](int64_t users) {
    InferenceJob j = job;
    j.users = users;
    return plan_serving(spec, cluster, j).found;
  };
  int64_t some = job.users / 2, too_many = job.users;
  while (some > 0 && !serves(some)) too_many = some, some /= 2;
  while (some > 0 && too_many - some > 1) {
    const int64_t middle = some + (too_many - some) / 2;
    (serves(middle) ? some : too_many) = middle;
  }
  if (some > 0 && out.size() < kMostServingAdvice) out.push_back(fmt::format("--users {}", some));
  for (InferenceJob j = job; !j.lengths && j.prompt >= 64;) {
    j.prompt /= 2;
    if (attempt(fmt::format("--prompt-tokens {}", j.prompt), j, cluster)) break;
  }
  if (cluster.groups.size() == 1 && !q.tern) {
    const int64_t joined = cluster.network.empty() ? 1 : cluster.network.back().nodes;
    for (Cluster larger = cluster; larger.groups[0].count * 2 <= joined;) {
      larger.groups[0].count *= 2;
      if (attempt(fmt::format("--nodes {}", larger.groups[0].count), job, larger)) break;
    }
  }
  return out;
}

}  // namespace

ServingRefusal serving_refusal(const ServingQuestion& q, const ServingAnswer& a) {
  const InferenceJob& job = q.job;
  const std::vector<std::string> fits = advice(q);
  const std::string what =
      fits.empty() ? "Nothing near it was found." : "What would do: " + join({fits.begin(), fits.end()}, "; ") + ".";
  const std::string nearest = fmt::format("tp {}, pp {}", a.nearest_layout.tensor, a.nearest_layout.stages);
  Json out = {{"fits", !a.memory}, {"what_would_do", fits}, {"layouts", a.layouts}};
  if (!a.memory) {
    out["best_ttft_s"] = a.best_ttft_s;
    out["best_tpot_s"] = a.best_tpot_s;
    return {Error(ErrorKind::does_not_fit,
                  "plan: {} fits on '{}' and is too slow there: the first token takes {} at best{}, each after it "
                  "{}{}. {}",
                  q.model, q.cluster.name, format_seconds(a.best_ttft_s),
                  job.ttft_s > 0 ? fmt::format(" (--ttft {})", format_seconds(job.ttft_s)) : "",
                  format_seconds(a.best_tpot_s),
                  job.tpot_s > 0 ? fmt::format(" (--tpot {})", format_seconds(job.tpot_s)) : "", what),
            dump_json(out, 2) + "\n"};
  }
  out["tier"] = name_of(a.nearest.tier);
  out["missing_bytes"] = a.nearest.missing_bytes;
  out["wanted_bytes"] = a.nearest.total();
  out["nearest"] = nearest;
  return {Error(ErrorKind::does_not_fit,
                "plan: {} for {} of {}{} tokens does not fit on '{}': {} of weights, {} of keys and values, {} of "
                "working memory on each device of the nearest layout ({}); the {} memory lacks {}. {}",
                q.model, counted(std::max<int64_t>(job.users, 1), "user"), job.lengths ? "up to " : "",
                format_with_commas(job.context()), q.cluster.name, format_bytes(a.nearest.weights),
                format_bytes(a.nearest.kv), format_bytes(a.nearest.activations + a.nearest.logits), nearest,
                name_of(a.nearest.tier), format_bytes(a.nearest.missing_bytes), what),
          dump_json(out, 2) + "\n"};
}

}  // namespace tern
