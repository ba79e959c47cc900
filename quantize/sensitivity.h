#pragma once
// What each matrix of a model costs when it alone is coded: measured at the model's own output, type by type.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/io.h"
#include "model/unit_reader.h"
#include "quantize/layer_coder.h"

namespace tern {

/// How far a row of logits is from that of the reference, in nats.
using Divergence = std::function<double(std::span<const float> reference, std::span<const float> logits)>;

struct MatrixSensitivity {
  std::string parameter;
  std::vector<double> divergence;  // with each of the types: the mean over the tokens that were looked at
};

/// Codes one matrix after another as LayerCoder would code it if all before it were left as they are, and runs what comes
/// after it: the divergence of the model's predictions is then this matrix's own. To second order in the errors the
/// divergences of several matrices add up, which is what choose_mixture takes for granted. A matrix that no token reaches (an
/// expert that is never chosen) gets the mean of its unit's others.
/// What was measured of a unit is kept in `directory`, one file for each; what is there is not measured again.
/// Order   the same numbers for any number of threads, and after a kill.
class SensitivityMeter {
 public:
  static constexpr int64_t kTokens = 2048;  // of the text, at most

  /// `model_dir` as load_weights takes it; `types` as LayerCoder takes them. `settings`: a line that says what measures
  /// depend on beside the weights, to tell runs apart. The arguments must outlive it. Errors: those of ParameterReader.
  SensitivityMeter(const ModelSpec&, const std::string& model_dir, const CalibrationText&,
                   std::span<const WeightType> types, Divergence, Arena&, Io&, std::string directory,
                   std::string settings);
  SensitivityMeter(const SensitivityMeter&) = delete;

  /// The matrices of a unit whose rows are whole blocks of every type, in the order of for_each_linear. Ask in the order of units.
  /// Errors  usage: another run's measures are in the directory; NotFinite; those of LayerCoder.
  std::vector<MatrixSensitivity> measure(int unit);

  /// Bytes at most at once of the arena.
  static int64_t peak_bytes(const ModelSpec&, const CalibrationText&);

 private:
  struct Probe {
    size_t matrix, type;
    Tensor hidden_TD;  // behind the unit whose matrix is coded
  };
  ModelWeights weights_of(int unit);
  Tensor forward(int unit, const UnitWeights&, const Tensor& x_TD, InputObserver*);
  void advance_to(int unit);
  std::vector<MatrixSensitivity> probe(int unit, ModelWeights&);
  void finish(int unit, std::vector<Probe>&, std::vector<MatrixSensitivity>&);
  double divergence_of(const Tensor& hidden_TD);
  std::string file_of(int unit) const;
  std::optional<std::vector<MatrixSensitivity>> read(int unit, const std::string& run) const;
  void write(int unit, const std::string& run, const std::vector<MatrixSensitivity>&);

  const ModelSpec& spec_;
  UnitReader reader_;
  std::span<const WeightType> types_;
  Divergence divergence_;
  Arena& arena_;
  Io& io_;
  std::string directory_, settings_;
  std::vector<int32_t> tokens_;
  RopeTable rope_;
  Rows rows_;
  Tensor hidden_TD_;  // before unit next_, of the model as it is
  Tensor last_TD_;    // behind the last layer, of the model as it is
  int next_ = 0;
};

}  // namespace tern
