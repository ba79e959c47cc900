#include "planner/judges/check_certificate.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>
#include <vector>

namespace tern {
namespace {

using Wide = __int128;
constexpr int64_t kNone = int64_t{1} << 61;
constexpr Wide kByteUnit = 1048576;
constexpr Wide kUnreachable = Wide{1} << 90;  // no way there

struct Claim {
  uint64_t hash = 0;
  int64_t makespan = 0, bound = 0;
  std::vector<int> stage, strategy;
  std::vector<std::vector<int64_t>> prices;
};

bool read(std::string_view text, const Instance& in, Claim& claim) {
  std::istringstream lines{std::string(text)};
  std::string line, word;
  const auto next = [&](const char* key, std::istringstream& rest) {
    if (!std::getline(lines, line)) return false;
    rest = std::istringstream(line);
    return static_cast<bool>(rest >> word) && word == key;
  };
  std::istringstream rest;
  int version = 0;
  if (!next("tern-certificate", rest) || !(rest >> version) || version != 1) return false;
  if (!next("instance", rest) || !(rest >> std::hex >> claim.hash)) return false;
  if (!next("makespan", rest) || !(rest >> claim.makespan)) return false;
  if (!next("bound", rest) || !(rest >> claim.bound)) return false;
  int x = 0;
  if (!next("stage", rest)) return false;
  while (rest >> x) claim.stage.push_back(x);
  if (!next("strategy", rest)) return false;
  while (rest >> x) claim.strategy.push_back(x);
  for (int i = 0; i < in.num_stages; ++i) {
    if (!next("prices", rest) || !(rest >> x) || x != i) return false;
    auto& row = claim.prices.emplace_back(1, 0);
    for (int64_t p; rest >> p;)
      if (p >= 0) row.push_back(p);
  }
  return next("end", rest);
}

// Of unlike devices and unequal links: what stage i may run, and the link behind it.
bool of_type(const Instance& in, int i, int u, int k) {
  return in.stage_type.empty() || in.stage_type[i] < 0 || in.strategy_type[u][k] == in.stage_type[i];
}
const std::vector<std::vector<EdgeCost>>& link_table(const Instance& in, int i) {
  return in.link_class.empty() || in.link_class[i] == 0 ? in.across : in.other_across[in.link_class[i] - 1];
}

int64_t held_by(const Instance& in, int i) { return most_in_flight(in.schedule, i, in.num_stages, in.num_micro); }

// Layers of a stage, added from the last to the first. No number worse is better.
struct StageSum {
  int64_t f = 0, b = 0, host_f = 0, host_b = 0, backlog = 0, update = 0, begin = 0, transient = 0;
  TierBytes bytes{};
  auto all() const {
    return std::tie(f, b, host_f, host_b, backlog, update, begin, transient, bytes[0], bytes[1], bytes[2]);
  }
};

void add(StageSum& s, const Instance& in, int stage, int u, int k, const EdgeCost& behind, bool last) {
  const CostVector& c = in.cost[u][k];
  const int64_t gradient = c.backward + c.recompute + c.weight;
  s.f += c.forward + behind.forward;
  s.b += gradient + behind.backward + (last ? c.entry_backward : 0);
  s.host_f += c.host_forward;
  s.host_b += c.host_backward;
  s.backlog = std::max<int64_t>(s.backlog - gradient - behind.backward, 0) + c.sync;
  s.update += c.update;
  s.begin += c.begin;
  s.transient = std::max(s.transient, c.transient);
  for (int t = 0; t < kTiers; ++t) s.bytes[t] += c.persistent[t] + held_by(in, stage) * c.held[t];
}

bool fits(const StageSum& s, const TierBytes& capacity) {
  return s.bytes[0] + s.transient <= capacity[0] && s.bytes[1] <= capacity[1] && s.bytes[2] <= capacity[2];
}

struct StageDurations {
  int64_t f = 0, b = 0, tail = 0, begin = 0;
};
StageDurations times_of(const StageSum& s, const CostVector& entry) {
  return {std::max(s.f + entry.entry_forward, s.host_f), std::max(s.b, s.host_b), s.backlog + s.update, s.begin};
}

const EdgeCost& edge(const std::vector<std::vector<EdgeCost>>& e, const Instance& in, int u, int k, int l) {
  return e[u][k * in.cost[u + 1].size() + l];
}

// The pipeline, operation by operation: every device in its order, links one transfer after another.
int64_t run(const Instance& in, const std::vector<StageDurations>& t, const std::vector<EdgeCost>& link) {
  const int p = in.num_stages, c = in.num_micro;
  std::vector<std::vector<int64_t>> forward(p, std::vector<int64_t>(c, -1)), backward = forward;  // arrival of inputs
  std::vector<int64_t> clock(p), up(p, 0), down(p, 0);
  std::vector<int> done_f(p, 0), done_b(p, 0);
  for (int i = 0; i < p; ++i) clock[i] = t[i].begin;
  std::fill(forward[0].begin(), forward[0].end(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < p; ++i) {
      const int ahead = static_cast<int>(held_by(in, i));
      const bool is_forward = done_f[i] < c && done_f[i] < done_b[i] + ahead;
      const int m = is_forward ? done_f[i] : done_b[i];
      if (m >= c) continue;
      const int64_t ready = is_forward ? forward[i][m] : backward[i][m];
      if (ready < 0) continue;
      clock[i] = std::max(clock[i], ready) + (is_forward ? t[i].f : t[i].b);
      (is_forward ? done_f : done_b)[i]++;
      moved = true;
      if (is_forward && i + 1 < p) forward[i + 1][m] = up[i] = std::max(up[i], clock[i]) + link[i].forward;
      if (is_forward && i + 1 == p) backward[i][m] = 0;
      if (!is_forward && i > 0) backward[i - 1][m] = down[i] = std::max(down[i], clock[i]) + link[i - 1].backward;
    }
  }
  int64_t end = 0;
  for (int i = 0; i < p; ++i) end = done_b[i] == c ? std::max(end, clock[i] + t[i].tail) : kNone;
  return end;
}

std::string check_answer(const Instance& in, const Claim& claim) {
  const int layers = in.num_layers();
  if (static_cast<int>(claim.stage.size()) != layers || static_cast<int>(claim.strategy.size()) != layers)
    return "the assignment is not of the instance's layers";
  for (int u = 0; u < layers; ++u) {
    if (claim.strategy[u] < 0 || claim.strategy[u] >= static_cast<int>(in.cost[u].size())) return "an unknown strategy";
    const int step = u == 0 ? claim.stage[0] : claim.stage[u] - claim.stage[u - 1];
    if (step < 0 || step > (u == 0 ? 0 : 1)) return "stages that do not follow one another";
  }
  if (claim.stage.back() != in.num_stages - 1) return "another number of stages";
  for (int u = 0; u < layers; ++u)
    if (!of_type(in, claim.stage[u], u, claim.strategy[u])) return "a strategy on devices of another type";
  std::vector<StageDurations> times(in.num_stages);
  std::vector<EdgeCost> link;
  StageSum sum;
  for (int u = layers - 1; u >= 0; --u) {
    const bool last = u + 1 == layers || claim.stage[u + 1] != claim.stage[u];
    if (last) sum = {};
    add(sum, in, claim.stage[u], u, claim.strategy[u],
        last ? EdgeCost{} : edge(in.within, in, u, claim.strategy[u], claim.strategy[u + 1]), last);
    if (last && u + 1 < layers)
      link.insert(link.begin(), edge(link_table(in, claim.stage[u]), in, u, claim.strategy[u], claim.strategy[u + 1]));
    if (u > 0 && claim.stage[u - 1] == claim.stage[u]) continue;
    if (!fits(sum, in.capacity[claim.stage[u]])) return "the assignment does not fit";
    times[claim.stage[u]] = times_of(sum, in.cost[u][claim.strategy[u]]);
  }
  if (run(in, times, link) != claim.makespan) return "the assignment takes another time than stated";
  return "";
}

// Bounds of the stages from one on, seen from its first forward: round trip, last backward, last tail, from the step's
// begin.
struct Rest {
  int64_t t = 0, y = 0, z = 0, g = 0, mf = 0, mb = 0;
  auto all() const { return std::tie(t, y, z, g, mf, mb); }
};

Rest prepend(const Instance& in, int i, const StageDurations& x, const EdgeCost& link, const Rest& n) {
  const int64_t c = in.num_micro, w = held_by(in, i), p = x.f + x.b, both = link.forward + link.backward;
  Rest r;
  r.t = n.t + p + both;
  r.mf = std::max({n.mf, x.f, link.forward});
  r.mb = std::max({n.mb, x.b, link.backward});
  r.y = std::max({n.y + p + both, c * p, r.t + (c - w) * x.f + (c - 1) * x.b, ((c - 1) / w + 1) * r.t,
                  r.t + (c - 1) * std::max(link.forward, link.backward)});
  if (traits_of(in.schedule).in_flight == InFlight::all) r.y = std::max(r.y, r.t + (c - 1) * (r.mf + r.mb));
  r.z = std::max(n.z + x.f + link.forward, r.y + x.tail);
  r.g = std::max(n.g, x.begin + r.z);
  return r;
}

template <class T>
bool below(const T& a, const T& b) {
  return std::apply(
      [&](const auto&... x) { return std::apply([&](const auto&... y) { return ((x <= y) && ...); }, b.all()); },
      a.all());
}

template <class T>
void keep(std::vector<T>& front, const T& x) {
  if (std::any_of(front.begin(), front.end(), [&](const T& o) { return below(o, x); })) return;
  std::erase_if(front, [&](const T& o) { return below(x, o); });
  front.push_back(x);
}

class Proof {
 public:
  Proof(const Instance& in, const Claim& claim, int64_t most_labels)
      : in_(in), claim_(claim), layers_(in.num_layers()), stages_(in.num_stages), labels_left_(most_labels) {}

  /// Whether no assignment is below the bound.
  bool holds(CertificateVerdict& verdict) {
    least_stages();
    least_rest();
    for (int i = stages_ - 1; i >= 0; --i)
      for (int e = i + 1; e <= layers_ - (stages_ - 1 - i) && labels_left_ > 0; ++e) labels(i, e, verdict);
    if (labels_left_ <= 0) return false;
    for (const auto& [key, front] : rest_)
      if (std::get<0>(key) == 0 && std::get<1>(key) == 0)
        for (const Rest& r : front)
          if (r.g < claim_.bound) return false;
    return true;
  }

 private:
  // Least p of stage i over [a, e): for each price the cheapest way under time + price·bytes, less price·capacity.
  void least_stages() {
    least_.assign(stages_, std::vector<std::vector<int64_t>>(layers_ + 1, std::vector<int64_t>(layers_ + 1, kNone)));
    for (int i = 0; i < stages_; ++i)
      for (const int64_t price : claim_.prices[i])
        for (int e = 1; e <= layers_; ++e) {
          std::vector<Wide> after;
          for (int u = e - 1; u >= 0; --u) {
            std::vector<Wide> now;
            Wide whole = -1;
            for (int k = 0; k < static_cast<int>(in_.cost[u].size()); ++k) {
              const CostVector& c = in_.cost[u][k];
              if (!of_type(in_, i, u, k)) {
                now.push_back(kUnreachable);
                continue;
              }
              Wide way = u == e - 1 ? Wide{c.entry_backward} * kByteUnit : -1;
              for (int l = 0; l < static_cast<int>(after.size()); ++l) {
                const EdgeCost& x = edge(in_.within, in_, u, k, l);
                const Wide v = after[l] + Wide{x.forward + x.backward} * kByteUnit;
                if (way < 0 || v < way) way = v;
              }
              way += Wide{c.forward + c.backward + c.recompute + c.weight} * kByteUnit +
                     Wide{price} * (c.persistent[0] + held_by(in_, i) * c.held[0]);
              now.push_back(way);
              const Wide entered = way + Wide{c.entry_forward} * kByteUnit;
              if (whole < 0 || entered < whole) whole = entered;
            }
            if (whole < 0) whole = kUnreachable;
            const Wide bound = (whole - Wide{price} * in_.capacity[i][0]) / kByteUnit;
            int64_t& best = least_[i][u][e];
            best = std::max<int64_t>(best == kNone ? 0 : best,
                                     bound > 0 ? static_cast<int64_t>(std::min<Wide>(bound, kNone)) : 0);
            after = now;
          }
        }
  }

  // Least of what lies before (sum of p) and after (round trip) each stage's first layer.
  void least_rest() {
    before_.assign(stages_ + 1, std::vector<int64_t>(layers_ + 1, kNone));
    after_ = before_;
    before_[0][0] = after_[stages_][layers_] = 0;
    for (int i = 0; i < stages_; ++i)
      for (int a = 0; a < layers_; ++a)
        for (int e = a + 1; e <= layers_; ++e)
          if (before_[i][a] < kNone) before_[i + 1][e] = std::min(before_[i + 1][e], before_[i][a] + least_[i][a][e]);
    for (int i = stages_ - 1; i >= 0; --i)
      for (int a = 0; a < layers_; ++a)
        for (int e = a + 1; e <= layers_; ++e)
          if (after_[i + 1][e] < kNone) after_[i][a] = std::min(after_[i][a], after_[i + 1][e] + least_[i][a][e]);
  }

  // Below which p a stage over [a, e) may still be part of an assignment below the bound.
  int64_t most(int i, int a, int e) const {
    if (before_[i][a] == kNone || after_[i + 1][e] == kNone) return -1;
    const int64_t left = claim_.bound - 1 - before_[i][a];
    if (left < 0) return -1;
    return std::min(left / in_.num_micro, left - after_[i + 1][e]);
  }

  void labels(int i, int e, CertificateVerdict& verdict) {
    if (i + 1 < stages_ && !any_rest(i + 1, e)) return;
    if (i + 1 == stages_ && e != layers_) return;
    int64_t largest = -1;
    int first = e;
    for (int a = i; a < e; ++a) {
      if (most(i, a, e) < least_[i][a][e]) {
        ++verdict.stages_closed;
        continue;
      }
      ++verdict.stages_open;
      first = std::min(first, a);
      largest = std::max(largest, most(i, a, e));
    }
    for (int exit = 0; exit < static_cast<int>(in_.cost[e - 1].size()); ++exit) {
      std::vector<std::vector<StageSum>> now(in_.cost[e - 1].size());
      for (int u = e - 1; u >= first; --u) {
        std::vector<std::vector<StageSum>> longer(in_.cost[u].size());
        for (int k = 0; k < static_cast<int>(in_.cost[u].size()); ++k) {
          const auto grow = [&](StageSum s, const EdgeCost& behind) {
            add(s, in_, i, u, k, behind, u == e - 1);
            if (of_type(in_, i, u, k) && fits(s, in_.capacity[i]) && s.f + s.b <= largest) keep(longer[k], s);
          };
          if (u == e - 1) {
            if (k == exit) grow({}, {});
            continue;
          }
          for (int l = 0; l < static_cast<int>(now.size()); ++l)
            for (const StageSum& s : now[l]) grow(s, edge(in_.within, in_, u, k, l));
        }
        now.swap(longer);
        for (const auto& front : now) labels_left_ -= static_cast<int64_t>(front.size());
        if (labels_left_ <= 0) return;
        const int64_t limit = most(i, u, e);
        for (int k = 0; k < static_cast<int>(now.size()); ++k)
          for (const StageSum& s : now[k]) {
            const StageDurations x = times_of(s, in_.cost[u][k]);
            if (x.f + x.b <= limit) join(i, u, k, e, exit, x);
          }
      }
    }
  }

  bool any_rest(int i, int u) const {
    const auto it = rest_.lower_bound(std::tuple{i, u, 0});
    return it != rest_.end() && std::get<0>(it->first) == i && std::get<1>(it->first) == u;
  }

  void join(int i, int u, int k, int e, int exit, const StageDurations& x) {
    auto& front = rest_[std::tuple{i, u, k}];
    --labels_left_;
    if (i + 1 == stages_) return keep(front, prepend(in_, i, x, {}, {}));
    for (int l = 0; l < static_cast<int>(in_.cost[e].size()); ++l) {
      const auto it = rest_.find(std::tuple{i + 1, e, l});
      if (it == rest_.end()) continue;
      for (const Rest& n : it->second)
        keep(front, prepend(in_, i, x, edge(link_table(in_, i), in_, e - 1, exit, l), n));
    }
  }

  const Instance& in_;
  const Claim& claim_;
  const int layers_, stages_;
  int64_t labels_left_;
  std::vector<std::vector<std::vector<int64_t>>> least_;  // (stage)(a)(e)
  std::vector<std::vector<int64_t>> before_, after_;
  std::map<std::tuple<int, int, int>, std::vector<Rest>> rest_;  // (stage, first layer, its strategy)
};

}  // namespace

uint64_t hash_of(const Instance& in) {
  uint64_t h = 1469598103934665603ULL;
  const auto put = [&](int64_t x) {
    for (int i = 0; i < 8; ++i) h = (h ^ (static_cast<uint64_t>(x) >> (8 * i) & 255)) * 1099511628211ULL;
  };
  for (const int x : {in.num_stages, in.chunks_per_stage, in.num_micro, static_cast<int>(in.schedule), in.num_layers()})
    put(x);
  for (const auto& row : in.cost) {
    put(static_cast<int64_t>(row.size()));
    for (const CostVector& c : row) {
      for (const int64_t x : {c.forward, c.backward, c.weight, c.recompute, c.host_forward, c.host_backward,
                              c.entry_forward, c.entry_backward, c.begin, c.sync, c.update, c.held_weight, c.transient})
        put(x);
      for (int t = 0; t < kTiers; ++t) put(c.persistent[t]), put(c.held[t]);
    }
  }
  for (const auto* edges : {&in.within, &in.across})
    for (const auto& row : *edges)
      for (const EdgeCost& e : row) put(e.forward), put(e.backward);
  for (const TierBytes& c : in.capacity)
    for (const int64_t x : c) put(x);
  for (const int x : in.stage_type) put(x);
  for (const auto& row : in.strategy_type)
    for (const int x : row) put(x);
  for (const int x : in.link_class) put(x);
  for (const auto& table : in.other_across)
    for (const auto& row : table)
      for (const EdgeCost& e : row) put(e.forward), put(e.backward);
  return h;
}

bool no_assignment_below(const Instance& in, int64_t bound, const std::vector<std::vector<int64_t>>& prices,
                         int64_t most_labels) {
  Claim claim;
  claim.bound = bound, claim.prices = prices;
  CertificateVerdict counts;
  return Proof(in, claim, most_labels).holds(counts);
}

CertificateVerdict check_certificate(const Instance& in, std::string_view certificate) {
  CertificateVerdict verdict;
  Claim claim;
  if (in.chunks_per_stage != 1 || !traits_of(in.schedule).certified)
    verdict.reason = "the checker knows gpipe and 1f1b only";
  else if (!read(certificate, in, claim))
    verdict.reason = "not a certificate of this form";
  else if (claim.hash != hash_of(in))
    verdict.reason = "of another instance";
  else
    verdict.reason = check_answer(in, claim);
  if (!verdict.reason.empty()) return verdict;
  if (claim.bound > claim.makespan || !Proof(in, claim, kNone).holds(verdict)) {
    verdict.reason = "the bound is not proven: an assignment may be below it";
    return verdict;
  }
  verdict.accepted = true;
  return verdict;
}

}  // namespace tern
