#pragma once
// Reads a model's weights from its files and lends them unit by unit, so that a pass over a model of any depth needs one unit's memory.

#include <string>

#include "model/parameter_reader.h"
#include "model/weight_source.h"

namespace tern {

/// Reads weights as f32, decoded where files code them. The unit that was acquired last stays loaded until another is acquired;
/// only one unit may be held at a time.
class UnitReader final : public WeightLender {
 public:
  /// `model_dir` as load_weights takes it. The arguments must outlive it. Errors: those of ParameterReader.
  UnitReader(const ModelSpec&, const std::string& model_dir, Arena&);

  /// Errors: those of ParameterReader::read; bug: another unit is held.
  const UnitWeights& acquire(int unit) override;
  void release(int) noexcept override { --held_; }

  /// Upper bound of the bytes that it holds at once: those of the largest unit plus those of the model's largest parameter.
  static int64_t peak_bytes(const ModelSpec&);

 private:
  void load(int unit);

  const ModelSpec& spec_;
  ParameterReader reader_;
  Arena& arena_;
  ModelWeights weights_;
  int unit_ = -1, held_ = 0;
};

}  // namespace tern
