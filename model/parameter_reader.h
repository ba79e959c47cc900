#pragma once
// A model's parameters one at a time, so that a model of any size passes through little memory.

#include <memory>
#include <string>

#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

class ParameterReader {
 public:
  /// `model_dir` as load_weights takes it. Errors  bad_file: the first fault of the files, found before a
  /// number is read.
  ParameterReader(const ModelSpec&, const std::string& model_dir);
  ~ParameterReader();

  /// Reads a whole parameter, as load_weights would load it; it counts as weights until the caller releases it. The one
  /// read last is kept: asking for it again costs nothing. Errors: those of load_weights.
  Tensor read(const ParameterInfo&, DType, Arena&);

 private:
  struct Files;
  std::unique_ptr<Files> files_;
  std::string last_;
  Tensor kept_;
};

}  // namespace tern
