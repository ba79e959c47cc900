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
  /// Makes an adapter of `rank` and scale 1 beside every matrix of the layers. Beside matrices that are never coded it stays a new one, which
  /// changes nothing. `base_model`: what the adapter is for. Errors: usage: experts, which have no adapters.
  LoftqCoder(const ModelSpec&, const ReadParameter& read, int64_t rank, int rounds, const std::string& base_model,
             Arena&);
  LoftqCoder(const LoftqCoder&) = delete;

  /// The codes of a parameter (has_codes), whose numbers `read` gives; its branches then make up for the codes' error. Valid until the
  /// next call. Errors: usage: a rank above the sides of a module; those of loftq.
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
