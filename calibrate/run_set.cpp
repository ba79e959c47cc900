#include "calibrate/run_set.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "base/error.h"
#include "calibrate/ready_pipelines.h"
#include "hardware/machine.h"

namespace tern {

RunSet::RunSet(const std::vector<PublishedRun>& runs, const Cluster& cluster, const std::string& path)
    : cluster_(cluster) {
  TERN_CHECK(!runs.empty(), "RunSet: no runs");
  dtype_ = runs.front().job.dtype;
  ReadyPipelines pipelines;
  // Rows whose prices may be alike, and the first of each that are.
  using Key = std::array<int64_t, 10>;
  std::map<Key, std::vector<size_t>> firsts;
  for (const PublishedRun& run : runs) {
    if (run.job.dtype != dtype_)
      throw Error(ErrorKind::bad_file, "{}:{}: dtype: {}, the rows before have {}; a calibration is of one dtype", path,
                  run.line, name_of(run.job.dtype), name_of(dtype_));
    runs_.emplace_back(run, cluster, path, pipelines);
    const PublishedRun& r = runs_.back().run();
    const Mesh& m = r.choice.mesh;
    std::vector<size_t>& near = firsts[{m.tensor, m.context, m.data, r.choice.micro_batch, r.choice.num_stages > 1,
                                        r.job.seq, r.vocabulary, r.width, r.heads, runs_.back().num_nodes()}];
    const auto like =
        std::find_if(near.begin(), near.end(), [&](size_t i) { return runs_[i].shares_prices_with(runs_.back()); });
    like_.push_back(like == near.end() ? runs_.size() - 1 : *like);
    if (like == near.end()) near.push_back(runs_.size() - 1);
  }
}

std::vector<size_t> RunSet::all() const {
  std::vector<size_t> rows(size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  return rows;
}

std::vector<size_t> RunSet::fitted() const {
  std::vector<size_t> rows;
  for (size_t i = 0; i < size(); ++i)
    if (run(i).seconds > 0 && run(i).use == RunUse::fit) rows.push_back(i);
  return rows;
}

AgreedTraits RunSet::traits(std::span<const size_t> which) const {
  AgreedTraits agreed;
  const auto any = [](const PublishedRun&) { return true; };
  const auto of_groups = [](const PublishedRun& r) { return r.choice.mesh.tensor > 1; };
  const auto of_contexts = [](const PublishedRun& r) { return r.choice.mesh.context > 1; };
  const auto of_shares = [](const PublishedRun& r) { return r.strategy.zero == 1 || r.strategy.zero == 2; };
  const auto agree = [&](std::string_view column, auto FrameworkTraits::*trait, const auto& counts) {
    const FrameworkTraits* first = nullptr;
    for (const size_t i : which) {
      if (!counts(run(i))) continue;
      if (!first) first = &run(i).traits;
      if (first->*trait == run(i).traits.*trait) continue;
      agreed.differ.push_back(column);
      return;
    }
    if (first) agreed.traits.*trait = first->*trait;
  };
  agree("products", &FrameworkTraits::product_rate, any);
  agree("gradient sums", &FrameworkTraits::sums, any);
  agree("sequence parallelism", &FrameworkTraits::sequence_parallel, of_groups);
  agree("tensor overlap", &FrameworkTraits::hides_input_gradient_sums, of_groups);
  agree("weight gathers", &FrameworkTraits::gathers_weights_beside, of_shares);
  agree("context exchange", &FrameworkTraits::gathers_context, of_contexts);
  return agreed;
}

std::vector<double> RunSet::seconds(std::span<const size_t> which, const Constants& c) const {
  return seconds_on(which, with_constants(cluster_, dtype_, c));
}

std::vector<double> RunSet::seconds_on(std::span<const size_t> which, const Cluster& cluster) const {
  std::map<int64_t, Machine> machines;   // by nodes
  std::map<size_t, LayerPrices> prices;  // by like_
  std::vector<double> out;
  out.reserve(which.size());
  for (const size_t i : which) {
    const int64_t nodes = runs_[i].num_nodes();
    auto at = machines.find(nodes);
    if (at == machines.end()) at = machines.emplace(nodes, machine_of(with_nodes(cluster, nodes), 0)).first;
    auto price = prices.find(like_[i]);
    if (price == prices.end()) price = prices.emplace(like_[i], runs_[i].prices_on(at->second)).first;
    out.push_back(static_cast<double>(runs_[i].step_ps(at->second, price->second)) * 1e-12);
  }
  return out;
}

}  // namespace tern
