#pragma once
// One relaxation for every schedule. The makespan is the length of the longest path through a pipeline's operations, so
// any mixture of paths is a lower bound: a sum over stages of passes · time. Memory gets a price: for an assignment
// that fits, mu · (bytes at one moment of a device's order − the room there) is at most 0 on each device, and each
// device may have a price of its own. The sum of both is a sum over layers, so a walk over (layer, stage) finds its
// least value over all ways to lay layers into stages. The best mixture of paths is found as in Benders' decomposition:
// the walk's answer is simulated, and its longest path joins the mixture. docs/planner-proofs.md, "The relaxation".

#include <vector>

#include "planner/instance/bound_model_impl.h"
#include "planner/instance/price.h"

namespace tern {

/// Numbers for virtual stages, the links behind them, and devices. For a mixture of paths they are average passes; for
/// an assignment they are the times that paths pass, in ps.
struct PathTerms {
  std::vector<double> forward, backward, weight, host_forward,
      host_backward;         // stages; host_…: by paths through the host link instead
  std::vector<double> sync;  // stages: of Σ (sync − last gradient operation), a lower bound of the backlog
  std::vector<double> send_forward, send_backward;
  std::vector<double> begin, update;  // devices
  std::vector<double> bytes;          // devices; only for assignments
};
/// a += share·(b − a)
void mix_in(PathTerms& a, const PathTerms& b, double share);

/// Mixtures of paths, each of which gives a bound. One is the first micro-batch's way to the last stage and back; where a
/// device has one stage and the order is fixed, the mean over the devices of the passes left then is added. The others are
/// means over the devices of what leads to a device's work (its begin, or the first micro-batch's way there), all its work,
/// and what follows it (the device's tail, or the last micro-batch's way back).
std::vector<PathTerms> mean_paths(const Chain&);

/// The relaxation of one chain.
class Relaxation {
 public:
  explicit Relaxation(const Chain&);

  /// The least of Σ weights · times + mu · Σ dear · (bytes − room) over all assignments, ps, where the second sum is
  /// over the devices: at most the makespan of any assignment that fits. Keeps what assignment() and
  /// with_each_strategy() need.
  double least(const PathTerms&, double mu);
  /// Sets how dear a byte is on each device relative to the others: not negative; at first 1 on all.
  void set_dear(std::vector<double> dear);
  const std::vector<double>& dear() const { return dear_; }
  /// Bytes that layers may take on a device.
  double room(int device) const { return room_[static_cast<size_t>(device)]; }
  /// An assignment that attains the last least(); and what paths pass in an assignment.
  Assignment assignment() const;
  PathTerms amounts(const Assignment&) const;
  /// The least of each number, spread evenly over stages and devices.
  PathTerms even_amounts() const;
  /// By form (chain.form) and strategy: the value of the last least() if one layer of that form must take that
  /// strategy. If it is above an upper bound, no assignment below that bound has the strategy.
  std::vector<std::vector<double>> with_each_strategy() const;

  /// Searches for the best price by its exponent, around the last best one. Returns the bound; mu() is then the price.
  double price_memory(const PathTerms&, int steps);
  double mu() const { return mu_; }

 private:
  struct Row {  // a layer's strategy
    int strategy, type;
    double forward, backward, weight, host_forward, host_backward, sync, begin, update, entry_forward, entry_backward;
    double persistent, held, held_weight;
  };
  double cost(const Row&, int stage) const;
  double bytes(const Row& r, int stage) const {
    const size_t s = static_cast<size_t>(stage);
    return r.persistent + held_[s] * r.held + held_weight_[s] * r.held_weight;
  }
  /// More, if the layer is the first or the last of its stage.
  double as_first(const Row& r, int stage) const {
    return weights_.forward[static_cast<size_t>(stage)] * r.entry_forward;
  }
  double as_last(const Row& r, int stage) const {
    return weights_.backward[static_cast<size_t>(stage)] * r.entry_backward;
  }
  const EdgeCost& least_behind(int u, size_t stage) const {
    const auto& of = chain_.in->link_class;
    return across_[static_cast<size_t>(of.empty() ? 0 : of[stage])][static_cast<size_t>(u)];
  }
  bool takes(int stage, const Row& r) const {
    const int type = chain_.rule[static_cast<size_t>(stage)].type;
    return type == kAnyType || r.type == type;
  }
  double link(int u, int stage) const;
  size_t at(int u, int stage) const {
    return static_cast<size_t>(u) * static_cast<size_t>(stages_) + static_cast<size_t>(stage);
  }
  int lowest(int u) const { return std::max(0, stages_ - (layers_ - u)); }
  int highest(int u) const { return std::min(u, stages_ - 1); }

  const Chain& chain_;
  int layers_, stages_;
  std::vector<std::vector<Row>> rows_;         // by layer; filled only where chain.form[u] == u
  std::vector<std::vector<EdgeCost>> across_;  // by class of link, then layer: least cost behind it
  std::vector<double> held_, held_weight_;     // micro-batches at the moment, per stage
  std::vector<double> room_, dear_;            // by device: device bytes; what one costs, in mu
  double unshared_ = 0;                        // bytes by which one device, no matter which, has less room
  double dear_room_ = 0, scale_ = 0;           // Σ dear · room; time over bytes
  double mu_ = 0;
  PathTerms weights_;
  // By form, stage and (first, last): least cost. By layer, stage and whether the stage ends there: least of what
  // follows.
  std::vector<std::vector<double>> cell_;
  std::vector<double> after_[2];
};

}  // namespace tern
