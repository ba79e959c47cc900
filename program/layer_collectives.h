#pragma once
// What a layer shares with its replicas: the bytes that each keeps, and the collectives over its parameters.

#include <map>
#include <vector>

#include "plan/sharing.h"
#include "program/placement.h"
#include "program/program.h"

namespace tern {

class LayerCollectives {
 public:
  LayerCollectives(const ModelSpec& spec, const Placement& placement) : spec_(spec), at_(placement) {}

  const LayerParameters& parameters(int l);
  /// Whether gradients go to their owners after each micro-batch.
  bool reduces_each_micro(int l) const;
  /// Weights, gradients and optimizer state of the layer that lie on this device all the time, by tier.
  TierBytes resident(int l);
  /// Bytes of the gradients of the layer's copies of the embedding table.
  int64_t table_bytes(int l) const;
  TableCopy table_copy_of(int u) const;
  /// A collective over the layer's dense parameters, and one over its experts', each only if there are such parameters and
  /// other ranks have them too.
  std::vector<Instruction> over(Opcode op, int l, int micro, const int64_t parameters[2], int64_t size) const;
  /// Under ZeRO 3 the GATHERs before one pass: of all that the layer reads, including a tied table that another layer (the
  /// embedding) keeps.
  std::vector<Instruction> gathers(int l, int micro);
  /// The buffers that these gathers fill.
  std::vector<Buffer> gathered(int l, int micro);

 private:
  const Layer& layer(int l) const { return at_.layers[l].layer; }
  bool pipelined() const { return at_.shape.num_devices > 1; }

  const ModelSpec& spec_;
  const Placement& at_;
  std::map<int, LayerParameters> parameters_;  // by kind of layer
};

}  // namespace tern
