#pragma once
// Several adapters of one model, each with a gate that says how much it counts for a sequence (model/input_gate.h).
//
//   DIR/gates.json          {"format": "tern gated adapters 1", "prompt_tokens": 32, "branches": ["0-plays", …]}
//   DIR/gates.safetensors   first.0 (hidden, width), second.0 (width, hidden), key.0 (width), first.1, … in F64
//   DIR/0-plays/            a PEFT directory

#include <span>
#include <string>
#include <vector>

#include "model/input_gate.h"

namespace tern {

class Io;

struct GatedAdapter {
  int64_t prompt_tokens = 0;  // how many tokens of a plain text gates read; of a text with an answer: all before it
  std::vector<InputGate> gates;
  std::vector<std::string> branches;  // PEFT directories; in the order of the gates
};

bool is_gated_adapter(const std::string& dir);
/// Errors: bad_file naming file and key or tensor: no gates, not one gate per branch, a wrong shape, a number that is not finite.
GatedAdapter read_gated_adapter(const std::string& dir);
/// Writes the directory with copies of the branches' files. Errors: those of the Io.
void write_gated_adapter(const GatedAdapter&, const std::string& dir, Io&);

/// The gates of a sequence that begins with these tokens, in [0, 1). They depend on the tokens and the model's first unit alone.
std::vector<double> gates_of(const GatedAdapter&, const ModelSpec&, const ModelWeights&,
                             std::span<const int32_t> prompt);

/// Multiplies the scales of a model's branches by the values of gates.
class GatedBranches {
 public:
  GatedBranches() = default;
  /// Takes all branches of `weights`; `weights` must outlive this object. Branches of adapter j (Branch::adapter)
  /// are scaled by gate j, all others by gate `own`. From then on all branches act on every row.
  GatedBranches(const ModelSpec&, ModelWeights& weights, size_t own);
  void set(std::span<const double> gates) const;

 private:
  struct Item {
    Branch* branch;
    double scale;
    size_t gate;
  };
  std::vector<Item> items_;
};

}  // namespace tern
