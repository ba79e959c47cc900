#include "planner/judges/audit_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "planner/instance/price.h"
#include "planner/judges/audit_paths.h"
#include "planner/judges/check_certificate.h"
#include "program/pipeline.h"
#include "program/pipeline_run.h"

namespace tern {
namespace {

constexpr double kAboveAll = 1e300;
constexpr int kPrices = 14;                          // of memory, tried by golden section
constexpr int kMostMixedPaths = 40;                  // paths in a mixture
constexpr int64_t kMostAuditedOperations = 300'000;  // of a pipeline whose paths are followed
constexpr int64_t kMostLabels = 30'000;

double to_double(int64_t x) { return static_cast<double>(x); }
// Sums of some thousand doubles that carry integers: gives up more than they can be wrong by.
int64_t whole(double x) { return x <= 0 ? 0 : x > 1e18 ? int64_t{1} << 60 : static_cast<int64_t>(x * (1 - 1e-11)) - 1; }

struct Row {
  double forward, gradient, weight;  // gradient: with the weights' where the schedule does not split them
  double begin, update, sync;        // sync: less its own last gradient, so that sums are below the backlog
  double bytes, held, held_weight;   // of the device tier
};

class Audit {
 public:
  explicit Audit(const Instance& in)
      : in_(in),
        shape_(shape_of(in)),
        devices_(in.num_stages),
        stages_(shape_.num_virtual_stages()),
        layers_(in.num_layers()),
        micro_(in.num_micro),
        split_(splits_backward(in.schedule)),
        fixed_(!order_follows_times(in.schedule)) {
    read_rows();
    read_links();
    int64_t transient = std::numeric_limits<int64_t>::max();
    for (size_t u = 0; u < layers(); ++u)
      if (count_[u] > 0)
        for (const CostVector& c : in_.cost[u]) transient = std::min(transient, c.transient);
    for (const TierBytes& c : in_.capacity) room_ += to_double(c[0] - transient);
  }

  AuditedBound run(int64_t wanted) {
    if (!has_room()) return {AuditedBy::memory, std::numeric_limits<int64_t>::max()};
    int64_t best = std::max(whole(mean_of_work()), whole(fullest_device()));
    if (best >= wanted) return {AuditedBy::work, best};
    read_moments();
    best = std::max(best, along_paths(wanted));
    if (best >= wanted) return {AuditedBy::paths, best};
    if (traits_of(in_.schedule).certified && no_assignment_below(in_, wanted, prices(), kMostLabels))
      return {AuditedBy::labels, wanted};
    return {AuditedBy::open, best};
  }

 private:
  size_t layers() const { return static_cast<size_t>(layers_); }
  size_t stages() const { return static_cast<size_t>(stages_); }
  size_t devices() const { return static_cast<size_t>(devices_); }

  // Equal layers share their rows, those of the first like them.
  void read_rows() {
    first_like_.resize(layers());
    count_.assign(layers(), 0);
    for (size_t u = 0; u < layers(); ++u) {
      size_t like = u;
      if (!in_.layer_class.empty())
        like = static_cast<size_t>(std::find(in_.layer_class.begin(), in_.layer_class.end(), in_.layer_class[u]) -
                                   in_.layer_class.begin());
      first_like_[u] = like;
      ++count_[like];
    }
    rows_.resize(layers());
    for (size_t u = 0; u < layers(); ++u) {
      if (first_like_[u] != u) continue;
      // The unit's last gradient operation has the resharding behind it: the most there can be.
      int64_t behind = 0;
      if (u + 1 < layers() && !split_)
        for (size_t v = u; v + 1 < layers(); ++v)
          if (first_like_[v] == u)
            for (const EdgeCost& e : in_.within[v]) behind = std::max(behind, e.backward);
      for (const CostVector& c : in_.cost[u]) {
        const int64_t gradient = c.recompute + c.backward + (split_ ? 0 : c.weight);
        rows_[u].push_back({to_double(c.forward), to_double(gradient), to_double(split_ ? c.weight : 0),
                            to_double(c.begin), to_double(c.update),
                            to_double(c.sync - (split_ ? c.weight : gradient) - behind), to_double(c.persistent[0]),
                            to_double(c.held[0]), to_double(c.held_weight)});
      }
    }
  }

  // Behind each layer, for each class of link, the least.
  void read_links() {
    const auto least = [&](const std::vector<std::vector<EdgeCost>>& table) {
      std::vector<EdgeCost> of;
      for (const auto& edges : table) {
        EdgeCost x = edges.front();
        for (const EdgeCost& e : edges) x = {std::min(x.forward, e.forward), std::min(x.backward, e.backward)};
        of.push_back(x);
      }
      return of;
    };
    links_.push_back(least(in_.across));
    for (const auto& table : in_.other_across) links_.push_back(least(table));
  }
  const EdgeCost& link(size_t u, size_t s) const {
    return links_[in_.link_class.empty() ? 0 : static_cast<size_t>(in_.link_class[s])][u];
  }
  bool is_link(size_t s) const {
    return device_of(shape_, static_cast<int>(s)) != device_of(shape_, static_cast<int>(s) + 1);
  }

  bool runs(size_t s, size_t u, size_t k) const {
    if (in_.stage_type.empty()) return true;
    const int type = in_.stage_type[static_cast<size_t>(device_of(shape_, static_cast<int>(s)))];
    return type == kAnyType || in_.strategy_type[u][k] == type;
  }

  // Of each device one moment of its order, that with the most micro-batches held: what they hold must have room then.
  // An order that depends on the times holds one at least.
  void read_moments() {
    held_.assign(stages(), 1), held_weight_.assign(stages(), 0);
    // A long order holds most where a short one does, which has the same operations up to its drain; GPipe and the V
    // shapes have none, and hold one at least too.
    PipelineShape shape = shape_;
    const bool is_long = int64_t{3} * stages_ * in_.num_micro > kMostAuditedOperations;
    const bool steady = traits_of(shape.schedule).steady;
    if (is_long && steady) shape.num_micro = std::min(shape.num_micro, 4 * devices_);
    if (fixed_ && (!is_long || steady)) {
      const PipelineOrder order = pipeline_order(shape, even_times());
      for (size_t device = 0; device < devices(); ++device) {
        std::vector<int> now(stages(), 0), later(stages(), 0), most, most_later;
        int64_t sum = 0, largest = 0;
        for (const PipelineOp& op : order[device]) {
          const size_t s = static_cast<size_t>(op.stage);
          if (op.phase == Phase::forward && (++now[s], ++sum > largest)) largest = sum, most = now, most_later = later;
          if (op.phase == Phase::backward) --now[s], --sum, later[s] += split_;
          if (op.phase == Phase::weight) --later[s];
        }
        for (size_t s = 0; s < stages(); ++s)
          if (device_of(shape_, static_cast<int>(s)) == static_cast<int>(device))
            held_[s] = most[s], held_weight_[s] = most_later[s];
      }
    }
  }
  PipelineTimes even_times() const {
    PipelineTimes t;
    t.forward.assign(stages(), 1), t.backward = t.weight = t.forward;
    t.send_forward.assign(stages() - 1, 0), t.send_backward = t.send_forward;
    t.begin.assign(devices(), 0), t.tail = t.begin;
    return t;
  }

  // Σ over the layers of the least bytes against all the memory of all devices, each tier's and together.
  bool has_room() const {
    double device = 0, all = 0, capacity = 0;
    for (size_t u = 0; u < layers(); ++u) {
      if (count_[u] == 0) continue;
      double least = kAboveAll, least_all = kAboveAll;
      for (const CostVector& c : in_.cost[u]) {
        double bytes = 0;
        for (size_t t = 0; t < kTiers; ++t) bytes += to_double(c.persistent[t] + c.held[t]);
        least_all = std::min(least_all, bytes), least = std::min(least, to_double(c.persistent[0] + c.held[0]));
      }
      device += count_[u] * least, all += count_[u] * least_all;
    }
    for (const TierBytes& c : in_.capacity)
      for (size_t t = 0; t < kTiers; ++t) capacity += to_double(c[t]);
    return device <= room_ && all <= capacity;
  }

  // Every device begins, does all its work and ends with its tail; so does the average one. Memory at a price.
  double mean_of_work() const {
    double best = 0, work = 0, bytes = 0;
    for (size_t u = 0; u < layers(); ++u) {
      if (count_[u] == 0) continue;
      double time = kAboveAll, least = kAboveAll;
      for (const Row& r : rows_[u])
        time = std::min(time, micro_ * (r.forward + r.gradient + r.weight)), least = std::min(least, r.bytes + r.held);
      work += count_[u] * time, bytes += count_[u] * least;
    }
    const double scale = bytes > 0 ? work / bytes : 0;
    for (const double share : {0.0, 0.5, 1.0})
      for (const double price : {0.0, 0.03, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0}) {
        const double mu = price * scale;
        double sum = 0;
        for (size_t u = 0; u < layers(); ++u) {
          if (count_[u] == 0) continue;
          double least = kAboveAll;
          for (const Row& r : rows_[u])
            least = std::min(least, micro_ * (r.forward + r.gradient + r.weight) + r.begin + r.update + share * r.sync +
                                        mu * (r.bytes + r.held));
          sum += count_[u] * least;
        }
        best = std::max(best, (sum - mu * room_) / devices_);
      }
    return best;
  }

  // Layers are whole: the least time in which all devices together have places for all layers of a kind. Where a device
  // has one stage, the first micro-batch reaches device i after i layers and links at least.
  double fullest_device() const {
    std::vector<double> lead(devices(), 0);
    if (devices_ == stages_ && devices_ > 1) {
      double least = kAboveAll;
      for (const auto& rows : rows_)
        for (const Row& r : rows) least = std::min(least, r.forward);
      std::vector<double> way;
      for (const auto& links : links_) {
        way.push_back(kAboveAll);
        for (const EdgeCost& e : links) way.back() = std::min(way.back(), to_double(e.forward));
      }
      for (size_t i = 1; i < devices(); ++i)
        lead[i] = lead[i - 1] + least + way[in_.link_class.empty() ? 0 : static_cast<size_t>(in_.link_class[i - 1])];
    }
    double bound = 0;
    for (size_t kind = 0; kind < layers(); ++kind) {
      if (count_[kind] == 0) continue;
      const double count = count_[kind];
      double work = kAboveAll;
      for (const Row& r : rows_[kind]) work = std::min(work, micro_ * (r.forward + r.gradient + r.weight));
      if (work <= 0) continue;
      double low = 0, high = work * count + lead.back();
      while (high - low > 1e-9 * high) {
        const double time = (low + high) / 2;
        double places = 0;
        for (const double before : lead) places += std::max(0.0, std::floor((time - before) / work));
        (places < count ? low : high) = time;
      }
      bound = std::max(bound, low);
    }
    return bound;
  }

  // Least of Σ passes · times + mu · (bytes − room) over all ways to lay layers into stages: a walk from the last layer
  // to the first. Keeps what follow() needs.
  double least(const Passes& p, double mu) {
    passes_ = p, mu_ = mu;
    cell_.assign(layers() * stages(), kAboveAll);
    choice_.assign(layers() * stages(), 0);
    for (size_t u = 0; u < layers(); ++u) {
      if (first_like_[u] != u) continue;
      for (size_t s = 0; s < stages(); ++s) {
        const auto device = static_cast<size_t>(device_of(shape_, static_cast<int>(s)));
        for (size_t k = 0; k < rows_[u].size(); ++k) {
          if (!runs(s, u, k)) continue;
          const Row& r = rows_[u][k];
          const double x = p.forward[s] * r.forward + p.gradient[s] * r.gradient + p.weight[s] * r.weight +
                           p.sync[s] * r.sync + p.begin[device] * r.begin + p.update[device] * r.update +
                           mu * (r.bytes + held_[s] * r.held + held_weight_[s] * r.held_weight);
          if (x < cell_[u * stages() + s]) cell_[u * stages() + s] = x, choice_[u * stages() + s] = static_cast<int>(k);
        }
      }
    }
    after_.assign(layers() * stages(), kAboveAll);
    for (size_t u = layers(); u-- > 0;)
      for (size_t s = 0; s < stages(); ++s) {
        double rest = kAboveAll;
        if (u + 1 == layers())
          rest = s + 1 == stages() ? 0 : kAboveAll;
        else
          rest = std::min(after_[(u + 1) * stages() + s], s + 1 < stages() ? to_next(u, s) : kAboveAll);
        after_[u * stages() + s] = cell_[first_like_[u] * stages() + s] + rest;
      }
    return after_[0] - mu * room_;
  }
  double to_next(size_t u, size_t s) const {
    const double way =
        is_link(s) ? passes_.over[s] * to_double(link(u, s).forward) + passes_.back[s] * to_double(link(u, s).backward)
                   : 0;
    return way + after_[(u + 1) * stages() + s + 1];
  }

  // Of an assignment that attained least().
  Amounts follow() const {
    Amounts a;
    for (auto* x : {&a.forward, &a.gradient, &a.weight, &a.sync}) x->assign(stages(), 0);
    for (auto* x : {&a.over, &a.back}) x->assign(stages() - 1, 0);
    for (auto* x : {&a.begin, &a.update}) x->assign(devices(), 0);
    size_t s = 0;
    for (size_t u = 0; u < layers(); ++u) {
      const Row& r = rows_[first_like_[u]][static_cast<size_t>(choice_[first_like_[u] * stages() + s])];
      const auto device = static_cast<size_t>(device_of(shape_, static_cast<int>(s)));
      a.forward[s] += r.forward, a.gradient[s] += r.gradient, a.weight[s] += r.weight, a.sync[s] += r.sync;
      a.begin[device] += r.begin, a.update[device] += r.update;
      if (u + 1 < layers() && s + 1 < stages() && to_next(u, s) <= after_[(u + 1) * stages() + s]) {
        if (is_link(s)) a.over[s] = to_double(link(u, s).forward), a.back[s] = to_double(link(u, s).backward);
        ++s;
      }
    }
    return a;
  }

  // The average device; with the first micro-batch's way to it; the first micro-batch's way there and back.
  std::vector<Passes> first_mixtures() const {
    const double share = 1.0 / devices_;
    Passes own = no_passes(stages(), devices());
    for (auto* x : {&own.forward, &own.gradient, &own.weight}) x->assign(stages(), share * micro_);
    Passes led = own;
    own.begin.assign(devices(), share), own.update.assign(devices(), share);
    Passes synced = own;
    synced.sync.assign(stages(), share);
    led.begin[0] = 1, led.update.assign(devices(), share);
    for (size_t s = 0; s + 1 < devices(); ++s) {
      const double behind = share * to_double(devices_ - 1 - static_cast<int64_t>(s));
      led.forward[s] += behind, led.over[s] += behind;
    }
    Passes trip = no_passes(stages(), devices());
    trip.begin[0] = trip.update[0] = 1;
    for (auto* x : {&trip.forward, &trip.gradient, &trip.over, &trip.back}) std::fill(x->begin(), x->end(), 1);
    Passes half = synced;
    mix(half, led, 0.5);
    return {own, synced, led, half, trip};
  }

  double priced(const Passes& p, double& best_mu) {
    double best = least(p, 0), bytes = 0;
    best_mu = 0;
    for (size_t u = 0; u < layers(); ++u) {
      double l = kAboveAll;
      for (const Row& r : rows_[u]) l = std::min(l, r.bytes + r.held);
      if (count_[u] > 0) bytes += count_[u] * l;
    }
    if (bytes <= 0) return best;
    // Concave in mu: golden section over its exponent.
    double low = std::log2(std::max(1.0, best) / bytes) - 10, high = low + 16;
    const auto at = [&](double exponent) {
      const double mu = std::exp2(exponent), x = least(p, mu);
      if (x > best) best = x, best_mu = mu;
      return x;
    };
    constexpr double kGolden = 0.6180339887498949;
    double a = high - kGolden * (high - low), b = low + kGolden * (high - low), fa = at(a), fb = at(b);
    for (int i = 2; i < kPrices; ++i)
      if (fa < fb)
        low = a, a = b, fa = fb, fb = at(b = low + kGolden * (high - low));
      else
        high = b, b = a, fb = fa, fa = at(a = high - kGolden * (high - low));
    return best;
  }

  // Two players: the longest path of the average assignment joins the mixture, the assignment least along the mixture
  // joins the average.
  int64_t along_paths(int64_t wanted) {
    double best = 0, value = -kAboveAll;
    Passes mixture;
    for (Passes& p : first_mixtures()) {
      const double x = least(p, 0);
      if (x > value) value = x, mixture = p;
    }
    best = priced(mixture, best_mu_);
    double mu = best_mu_;
    if (whole(best) >= wanted || !fixed_ || int64_t{3} * stages_ * in_.num_micro > kMostAuditedOperations)
      return whole(best);
    const PreparedPipeline ready = prepare_pipeline(shape_, pipeline_order(shape_, even_times()));
    least(mixture, mu);
    Amounts average = follow();
    for (int round = 0; round < kMostMixedPaths; ++round) {
      const double share = 2.0 / (round + 3);
      mix(mixture, longest_path(shape_, ready, average), share);
      double x = round % 8 == 7 ? priced(mixture, mu) : least(mixture, mu);
      if (x > best) best = x, best_mu_ = mu;
      if (whole(best) >= wanted) break;
      least(mixture, mu);
      mix(average, follow(), share);
    }
    return whole(best);
  }

  // Of a byte, in ps per 2^20 bytes and micro-batch, about the price that the mixture liked.
  std::vector<std::vector<int64_t>> prices() const {
    std::vector<int64_t> row{0};
    for (const double factor : {0.25, 0.5, 1.0, 2.0, 4.0, 16.0}) {
      const double x = best_mu_ * devices_ * factor / micro_ * 1048576;
      if (x >= 1 && x < 1e15) row.push_back(static_cast<int64_t>(x));
    }
    return std::vector<std::vector<int64_t>>(devices(), row);
  }

  const Instance& in_;
  const PipelineShape shape_;
  const int devices_, stages_, layers_;
  const double micro_;
  const bool split_, fixed_;
  std::vector<size_t> first_like_;
  std::vector<int> count_;  // of layers like the first
  std::vector<std::vector<Row>> rows_;
  std::vector<std::vector<EdgeCost>> links_;  // (classes)(layers − 1)
  std::vector<double> held_, held_weight_;    // micro-batches, per virtual stage
  double room_ = 0, mu_ = 0, best_mu_ = 0;
  Passes passes_;
  std::vector<double> cell_, after_;  // (layers)(stages)
  std::vector<int> choice_;
};

}  // namespace

AuditedBound audit_bound(const Instance& in, int64_t wanted) {
  check_instance(in);
  return Audit(in).run(wanted);
}

AuditedBound audit_work_bound(const Instance& in, int64_t wanted) {
  int64_t work = 0;
  for (const auto& rows : in.cost) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const CostVector& c : rows) least = std::min(least, c.forward + c.recompute + c.backward + c.weight);
    work += least;
  }
  const int64_t bound = whole(to_double(work) * in.num_micro / in.num_stages);
  return {bound >= wanted ? AuditedBy::work : AuditedBy::open, bound};
}

}  // namespace tern
