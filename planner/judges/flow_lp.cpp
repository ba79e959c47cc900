#include "planner/judges/flow_lp.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace tern {
namespace {

// A linear expression, each name once; written eight terms to a line, since LP readers limit lines.
struct LinearSum {
  std::map<std::string, int64_t> terms;
  void add(int64_t factor, const std::string& name) {
    if (factor != 0) terms[name] += factor;
  }
  std::string text() const {
    std::string s;
    int i = 0;
    for (const auto& [name, factor] : terms) {
      s += fmt::format(" {} {} {}", factor < 0 ? '-' : '+', factor < 0 ? -factor : factor, name);
      if (++i % 8 == 0) s += '\n';
    }
    return s;
  }
};

class Writer {
 public:
  explicit Writer(const Instance& in) : in_(in), layers_(in.num_layers()), stages_(in.num_stages) {
    if (in.chunks_per_stage != 1 || !traits_of(in.schedule).certified)
      throw Error(ErrorKind::usage, "flow_lp: schedule {}, {} chunks; the encoding knows gpipe and 1f1b with one",
                  name_of(in.schedule), in.chunks_per_stage);
  }

  std::string write() {
    forward_.resize(stages_), backward_.resize(stages_), host_forward_.resize(stages_), host_backward_.resize(stages_);
    link_.resize(std::max(0, stages_ - 1));
    for (auto& tier : bytes_) tier.resize(stages_);
    arcs();
    LinearSum objective;
    for (int i = 0; i < stages_; ++i) {
      objective.add(1, fmt::format("f{}", i));
      objective.add(1, fmt::format("b{}", i));
    }
    for (int j = 0; j + 1 < stages_; ++j) objective.add(1, fmt::format("o{}", j));
    objective.add(in_.num_micro - 1, "T");
    std::string text = "Minimize\n obj:" + objective.text() + "\nSubject To\n";
    for (const auto& [node, sum] : balance_)
      text += fmt::format(" n{}:{} = {}\n", node, sum.text(), node == "source" ? 1 : 0);
    for (int i = 0; i < stages_; ++i) {
      at_least(text, fmt::format("f{}", i), forward_[i]);
      at_least(text, fmt::format("f{}", i), host_forward_[i]);
      at_least(text, fmt::format("b{}", i), backward_[i]);
      at_least(text, fmt::format("b{}", i), host_backward_[i]);
      text += fmt::format(" t{0}: T - f{0} - b{0} >= 0\n", i);
      for (int t = 0; t < kTiers; ++t)
        if (LinearSum& s = bytes_[t][i]; !s.terms.empty()) {
          if (t == 0) s.add(1, fmt::format("m{}", i));
          text += fmt::format(" c{}_{}:{} <= {}\n", i, t, s.text(), in_.capacity[i][t]);
        }
    }
    for (const auto& row : transient_) text += row;
    for (int j = 0; j + 1 < stages_; ++j) {
      at_least(text, fmt::format("o{}", j), link_[j]);
      text += fmt::format(" l{0}: T - o{0} >= 0\n", j);
    }
    text += "Binaries\n";
    for (size_t i = 0; i < names_.size(); ++i) text += ' ' + names_[i] + (i % 8 == 7 ? "\n" : "");
    return text + "\nEnd\n";
  }

 private:
  void at_least(std::string& text, const std::string& name, const LinearSum& sum) {
    LinearSum row;
    row.add(1, name);
    for (const auto& [x, factor] : sum.terms) row.add(-factor, x);
    text += fmt::format(" r{}:{} >= 0\n", rows_++, row.text());
  }

  int64_t in_flight(int stage) const { return most_in_flight(in_.schedule, stage, stages_, in_.num_micro); }
  bool runs(int i, int u, int s) const { return runs_on(in_, type_of_stage(in_, i), u, s); }
  std::string node(int u, int i, int s) const { return fmt::format("{}_{}_{}", u, i, s); }

  // What one unit at a node costs its stage, on every arc that enters it.
  void enter(const std::string& arc, int u, int i, int s, bool first_of_stage) {
    const CostVector& c = in_.cost[u][s];
    forward_[i].add(c.forward + (first_of_stage ? c.entry_forward : 0), arc);
    backward_[i].add(c.backward + c.recompute + c.weight, arc);
    host_forward_[i].add(c.host_forward, arc);
    host_backward_[i].add(c.host_backward, arc);
    for (int t = 0; t < kTiers; ++t) bytes_[t][i].add(c.persistent[t] + in_flight(i) * c.held[t], arc);
    if (c.transient > 0) transient_.push_back(fmt::format(" x{}: m{} - {} {} >= 0\n", rows_++, i, c.transient, arc));
    balance_[node(u, i, s)].add(1, arc);
  }

  void arcs() {
    for (int s = 0; s < static_cast<int>(in_.cost[0].size()); ++s) {
      if (!runs(0, 0, s)) continue;
      const std::string arc = fmt::format("s{}", s);
      names_.push_back(arc);
      balance_["source"].add(1, arc);
      enter(arc, 0, 0, s, true);
    }
    for (int u = 0; u + 1 < layers_; ++u)
      for (int i = 0; i < stages_ && i <= u; ++i)
        for (int s = 0; s < static_cast<int>(in_.cost[u].size()); ++s)
          for (int n = 0; n < static_cast<int>(in_.cost[u + 1].size()); ++n) {
            if (!runs(i, u, s)) continue;
            const size_t pair = s * in_.cost[u + 1].size() + n;
            const std::string stay = fmt::format("w{}_{}", node(u, i, s), n);
            if (runs(i, u + 1, n)) {
              names_.push_back(stay);
              balance_[node(u, i, s)].add(-1, stay);
              enter(stay, u + 1, i, n, false);
              forward_[i].add(in_.within[u][pair].forward, stay);
              backward_[i].add(in_.within[u][pair].backward, stay);
            }
            if (i + 1 == stages_ || !runs(i + 1, u + 1, n)) continue;
            const std::string cross = fmt::format("a{}_{}", node(u, i, s), n);
            names_.push_back(cross);
            balance_[node(u, i, s)].add(-1, cross);
            enter(cross, u + 1, i + 1, n, true);
            backward_[i].add(in_.cost[u][s].entry_backward, cross);
            const EdgeCost& link = links_behind(in_, i)[u][pair];
            link_[i].add(link.forward + link.backward, cross);
          }
    for (int i = 0; i < stages_; ++i)
      for (int s = 0; s < static_cast<int>(in_.cost[layers_ - 1].size()); ++s) {
        if (i + 1 < stages_ || !runs(i, layers_ - 1, s)) continue;  // only the last stage ends the chain
        const std::string arc = fmt::format("z{}", s);
        names_.push_back(arc);
        balance_[node(layers_ - 1, i, s)].add(-1, arc);
        backward_[i].add(in_.cost[layers_ - 1][s].entry_backward, arc);
      }
  }

  const Instance& in_;
  const int layers_, stages_;
  int rows_ = 0;
  std::vector<std::string> names_, transient_;
  std::map<std::string, LinearSum> balance_;
  std::vector<LinearSum> forward_, backward_, host_forward_, host_backward_, link_;
  std::array<std::vector<LinearSum>, kTiers> bytes_;
};

}  // namespace

std::string flow_lp(const Instance& in) { return Writer(in).write(); }

}  // namespace tern
