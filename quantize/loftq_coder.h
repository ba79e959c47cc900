#pragma once
// A model's matrices in codes, each with an adapter's branches beside it.

#include <map>
#include <string>
#include <vector>

#include "formats/peft/config.h"
#include "model/coded_matrix.h"
#include "model/read_parameter.h"
#include "model/visit_weights.h"

namespace tern {

class Io;

class LoftqCoder {
 public:
  /// An adapter of `rank` beside every matrix of the layers, with scale 1; beside those that are never coded it is a new one, which changes
  /// nothing. `base_model`: what the adapter is for. Errors: usage: experts, which have no adapters.
  LoftqCoder(const ModelSpec&, const ReadParameter& read, int64_t rank, int rounds, const std::string& base_model,
             Arena&);
  LoftqCoder(const LoftqCoder&) = delete;

  /// The codes of a parameter (has_codes), read with `read`; its branches are then what makes up for their error. Valid until the next
  /// call. Errors: usage: a rank above the sides of a module; loftq's.
  const CodedMatrix& code(const ParameterInfo&, WeightType);
  /// ‖w - q - b·a‖/‖w‖ over all matrices coded so far, after each round.
  std::vector<double> relative_errors() const;
  /// The adapter as a PEFT directory.
  void save(const std::string& dir, Io&) const;

 private:
  const ReadParameter& read_;
  int rounds_;
  PeftConfig config_;
  ModelSpec spec_;
  ModelWeights adapters_;
  std::map<std::string, Linear*> linears_;
  std::string name_;
  CodedMatrix matrix_;
  std::vector<double> errors_;
  double squares_ = 0;
};

}  // namespace tern
