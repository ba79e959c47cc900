#pragma once
// How replicas share a layer: the bytes that each replica keeps, and the collectives over the layer's parameters.

#include <map>
#include <vector>

#include "plan/sharing.h"
#include "program/placement.h"
#include "program/program.h"

namespace tern {

/// The bytes and collectives of the layers of one placement. `l`: a layer's index in Placement::layers.
class LayerCollectives {
 public:
  LayerCollectives(const ModelSpec& spec, const Placement& placement) : spec_(spec), at_(placement) {}

  /// Elements, and bytes of state, of the layer's parameters on one rank of the run, as if ZeRO divided nothing among ranks.
  const LayerParameters& parameters(int l);
  /// Whether the layer's gradients go to their owners after each micro-batch (ZeRO 2 and 3).
  bool reduces_each_micro(int l) const;
  /// Bytes of the layer's weights, gradients and optimizer state that lie on one rank of the run throughout the step, by tier.
  TierBytes resident(int l);
  /// Bytes of the gradients of the layer's copies of the embedding table.
  int64_t table_bytes(int l) const;
  /// The copy of the embedding table that unit `u` needs.
  TableCopy table_copy_of(int u) const;
  /// Up to two instructions `op`: one over the layer's dense parameters and one over its experts' parameters. Each is made only
  /// if `parameters` has more than 0 elements for it and several ranks of the run hold the same parameters. parameters:
  /// elements, [0] dense, [1] experts'; size: bytes of an element.
  std::vector<Instruction> over(Opcode op, int l, int micro, const int64_t parameters[2], int64_t size) const;
  /// The GATHERs before one pass under ZeRO 3 (none under ZeRO 0 to 2). They bring all weights that the layer reads; without
  /// stages a tied head also reads the table that the embedding keeps.
  std::vector<Instruction> gathers(int l, int micro);
  /// The buffers that `gathers` fills.
  std::vector<Buffer> gathered(int l, int micro);

 private:
  const Layer& layer(int l) const { return at_.layers[l].layer; }
  bool pipelined() const { return at_.shape.num_devices > 1; }

  const ModelSpec& spec_;
  const Placement& at_;
  std::map<int, LayerParameters> parameters_;  // by kind of layer
};

}  // namespace tern
