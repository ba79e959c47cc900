#pragma once
// A model's weights lent unit by unit out of its files, so that a pass over a model of any depth needs one unit's memory.

#include <string>

#include "model/parameter_reader.h"
#include "model/weight_source.h"

namespace tern {

/// Numbers in f32, decoded where files code them. The last acquired unit stays until another is acquired; only one may be
/// held at a time.
class UnitReader final : public WeightLender {
 public:
  /// `model_dir` as load_weights takes it. Arguments outlive it. Errors: those of ParameterReader.
  UnitReader(const ModelSpec&, const std::string& model_dir, Arena&);

  /// Errors: those of ParameterReader::read; bug: another unit is held.
  const UnitWeights& acquire(int unit) override;
  void release(int) noexcept override { --held_; }

  /// Bytes at most at once: the largest unit, and its largest parameter beside it.
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
