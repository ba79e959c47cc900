#pragma once
// Reads a model's parameters one at a time, so that little memory suffices for a model of any size.

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

  /// Reads a whole parameter, as load_weights would load it; it counts as weights until the caller releases
  /// it. The parameter read last is kept, so reading it again costs nothing. Errors: those of load_weights.
  Tensor read(const ParameterInfo&, DType, Arena&);

 private:
  struct Files;
  std::unique_ptr<Files> files_;
  std::string last_;
  Tensor kept_;
};

}  // namespace tern
