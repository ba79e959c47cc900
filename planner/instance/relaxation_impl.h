#pragma once
// One relaxation for every schedule. The makespan is the length of the longest path through a pipeline's operations, so
// any mixture of paths gives a lower bound: a sum over stages of passes · time. Memory gets a price mu. If an assignment
// fits, mu · (bytes at one moment of a device's order − the room there) is at most 0 on each device; each device may have
// a price of its own. Bound and price together are a sum over layers, so a walk over (layer, stage) finds their least
// value over all ways to lay layers into stages. The best mixture of paths is found as in Benders' decomposition:
// the walk's answer is simulated, and its longest path joins the mixture. docs/planner-proofs.md, "The relaxation".

#include <vector>

#include "planner/instance/bound_model_impl.h"
#include "planner/instance/price.h"

namespace tern {

/// Numbers for virtual stages, the links behind them, and devices. For a mixture of paths: how often it passes each of them on average.
/// For an assignment: the time of each of them, ps.
struct PathTerms {
  std::vector<double> forward, backward, weight, host_forward,
      host_backward;         // stages; host_…: for paths through the host link instead of the compute
  std::vector<double> sync;  // stages: for Σ (sync − last gradient operation), a lower bound of the backlog
  std::vector<double> send_forward, send_backward;
  std::vector<double> begin, update;  // devices
  std::vector<double> bytes;          // devices; only for assignments
};
/// a += share·(b − a)
void mix_in(PathTerms& a, const PathTerms& b, double share);

/// Mixtures of paths, each of which gives a bound. One is the first micro-batch's way to the last stage and back; if each device has
/// one stage and the order is fixed, the forwards and backwards that are then left follow it, as a mean over the devices. Every
/// other mixture is a mean over the devices of three parts: what precedes a device's work (its begin, or the first micro-batch's way
/// to it), all its work, and what follows it (the device's tail, or the last micro-batch's way back).
std::vector<PathTerms> mean_paths(const Chain&);

/// The relaxation of one chain.
class Relaxation {
 public:
  explicit Relaxation(const Chain&);

  /// The least of Σ factors · times + mu · Σ dear · (bytes − room) over all assignments, ps, where the second sum is
  /// over the devices: at most the makespan of any assignment that fits. Keeps what assignment() and
  /// with_each_strategy() need.
  double least(const PathTerms& factors, double mu);
  /// Sets the price of a byte on each device, as a multiple of mu: not negative; at first 1 on all.
  void set_dear(std::vector<double> dear);
  const std::vector<double>& dear() const { return dear_; }
  /// Bytes of a device that are left for layers.
  double room(int device) const { return room_[static_cast<size_t>(device)]; }
  /// assignment: one that attains the last least(). amounts: the PathTerms of an assignment.
  Assignment assignment() const;
  PathTerms amounts(const Assignment&) const;
  /// Amounts for a start: the least of each number, spread evenly over stages and devices.
  PathTerms even_amounts() const;
  /// By form (chain.form) and strategy: the value that the last least() would have if one layer of that form had to take that
  /// strategy. If this value is above an upper bound, no assignment below the upper bound has the strategy.
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
  /// The time that a layer adds as the first, or as the last, layer of its stage.
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
  std::vector<std::vector<EdgeCost>> across_;  // by class of link, then layer: least cost of the link behind the layer
  std::vector<double> held_, held_weight_;     // by stage: micro-batches at the priced moment
  std::vector<double> room_, dear_;            // by device: device bytes; price of a byte, as a multiple of mu
  double unshared_ = 0;                        // bytes by which some one device has less room; not known which
  double dear_room_ = 0, scale_ = 0;           // Σ dear · room; a typical time divided by bytes
  double mu_ = 0;
  PathTerms weights_;
  // cell_: by form, stage and (first, last), the least cost of the layer there. after_: by layer, stage and whether the stage ends
  // with the layer, the least cost of all later layers.
  std::vector<std::vector<double>> cell_;
  std::vector<double> after_[2];
};

}  // namespace tern
