#include <algorithm>

#include "planner/instance/enumerate_impl.h"
#include "planner/instance/price.h"
#include "program/pipeline_run.h"

namespace tern {
namespace {

class Walk {
 public:
  Walk(const Chain& chain, const IntervalBounds& bounds, const Round& round, StageLabels::Keep keep, int64_t limit,
       int64_t simulations, const Budget& budget, Incumbent& best)
      : chain_(chain),
        bounds_(bounds),
        round_(round),
        keep_(keep),
        limit_(limit),
        simulations_(simulations),
        budget_(budget),
        best_(best),
        price_(*chain.in),
        chosen_(chain.stages) {
    if (chain.exact_memory && chain.order_fixed) {
      shape_ = shape_of(*chain.in);
      times_.forward.resize(chain.stages);
      times_.backward.resize(chain.stages);
      times_.weight.assign(chain.stages, 0);
      times_.send_forward.assign(chain.stages - 1, 0);
      times_.send_backward.assign(chain.stages - 1, 0);
      times_.begin.resize(chain.stages);
      times_.tail.resize(chain.stages);
      prepared_ = prepare_pipeline(shape_, pipeline_order(shape_, times_));
    }
  }

  SearchEnd run() {
    for (size_t k = 0; k < round_.element[0][0].size() && outcome_ == SearchEnd::done; ++k)
      visit(0, 0, static_cast<int>(k));
    return outcome_;
  }

 private:
  struct Choice {
    const StageElement* element = nullptr;
    int begin = 0, entry = 0;
    LinkCost link;
  };
  struct Branch {
    int64_t value;
    const StageElement* element;
    LinkCost link;
    int next_entry;
  };

  // The bound of the whole, given the stages chosen so far and a suffix after stage i.
  int64_t value(int i, const StageCost& cost, const LinkCost& link, const Suffix& next) const {
    Suffix s = extend(chain_, i, cost, link, next);
    for (int j = i - 1; j >= 0; --j) s = extend(chain_, j, chosen_[j].element->cost, chosen_[j].link, s);
    return complete(chain_, 0, s, {});
  }

  int64_t ceiling() const { return std::min(limit_, best_.value - 1); }

  void visit(int i, int begin, int entry) {
    std::vector<Branch> branches;
    for (const StageElement& x : round_.element[i][begin][entry]) {
      // The ways on sorted by the state they enter: the least bound of each.
      const size_t first = branches.size();
      for (const Joined& j : round_.joined[i][x.end][x.exit]) {
        const int64_t v = value(i, x.cost, j.link, j.next);
        if (v > ceiling()) continue;
        if (branches.size() > first && branches.back().next_entry == j.next_entry)
          branches.back().value = std::min(branches.back().value, v);
        else
          branches.push_back({v, &x, j.link, j.next_entry});
      }
    }
    std::stable_sort(branches.begin(), branches.end(),
                     [](const Branch& a, const Branch& b) { return a.value < b.value; });
    for (const Branch& b : branches) {
      if (outcome_ != SearchEnd::done) return;
      if (b.value > ceiling()) return;
      if (++visited_ > 20 * simulations_) {
        outcome_ = SearchEnd::too_many;
        return;
      }
      chosen_[i] = {b.element, begin, entry, b.link};
      if (i + 1 == chain_.stages)
        simulate();
      else
        visit(i + 1, b.element->end, b.next_entry);
    }
  }

  void simulate() {
    if (best_.simulated >= simulations_) {
      outcome_ = SearchEnd::too_many;
      return;
    }
    if (budget_.stopped()) {
      outcome_ = SearchEnd::stopped;
      return;
    }
    ++best_.simulated;
    if (!prepared_.steps.empty()) {
      for (int i = 0; i < chain_.stages; ++i) {
        const StageCost& c = chosen_[i].element->cost;
        times_.forward[i] = c.forward;
        times_.backward[i] = c.backward;
        times_.begin[i] = c.begin;
        times_.tail[i] = c.tail;
        if (i + 1 == chain_.stages) break;
        times_.send_forward[i] = chosen_[i].link.forward;
        times_.send_backward[i] = chosen_[i].link.backward;
      }
      run_pipeline(prepared_, times_, scratch_, run_);
      if (run_.makespan >= best_.value) return;
    }
    const Assignment a = assignment();
    const Priced p = price_(a);
    if (!p.fits() || p.makespan >= best_.value) return;
    best_.found = true;
    best_.assignment = a;
    best_.value = best_.makespan = p.makespan;
  }

  Assignment assignment() const {
    Assignment a;
    for (int i = 0; i < chain_.stages; ++i) {
      const StageElement& x = *chosen_[i].element;
      std::vector<int> strategies;
      if (keep_ == StageLabels::Keep::all) {
        StageLabels labels(chain_, i, keep_);
        strategies = labels.strategies(round_.runs[i][x.run], x.depth, chosen_[i].entry, x.index);
      } else {
        strategies = recover_stage(chain_, bounds_.lambdas(i), keep_, i, chosen_[i].begin, chosen_[i].entry, x.end,
                                   x.exit, x.cost);
      }
      a.strategy.insert(a.strategy.end(), strategies.begin(), strategies.end());
      a.stage.insert(a.stage.end(), strategies.size(), i);
    }
    return a;
  }

  const Chain& chain_;
  const IntervalBounds& bounds_;
  const Round& round_;
  const StageLabels::Keep keep_;
  const int64_t limit_, simulations_;
  const Budget& budget_;
  Incumbent& best_;
  Pricer price_;
  std::vector<Choice> chosen_;
  SearchEnd outcome_ = SearchEnd::done;
  int64_t visited_ = 0;
  PipelineShape shape_;
  PipelineTimes times_;
  PreparedPipeline prepared_;
  PipelineScratch scratch_;
  PipelineRun run_;
};

}  // namespace

SearchEnd enumerate(const Chain& chain, const IntervalBounds& bounds, const Round& round, StageLabels::Keep keep,
                    int64_t limit, int64_t simulations, const Budget& budget, Incumbent& best) {
  return Walk(chain, bounds, round, keep, limit, simulations, budget, best).run();
}

}  // namespace tern
