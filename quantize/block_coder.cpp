#include "formats/gguf/block_codes.h"
#include "quantize/block_fit.h"
#include "quantize/row_coder.h"

namespace tern {
namespace {

class BlockCoder : public RowCoder {
 public:
  explicit BlockCoder(WeightType type) : type_(type), levels_(fitted_levels(type)) {}

  void begin_row(std::span<const float>, std::span<const float>, std::string&) override {}
  void fit(std::span<const float> x, std::span<const float> importance) override {
    block_ = fit_block(type_, x, importance);
  }
  float code(size_t j, float x) override {
    block_.codes[j] = static_cast<uint8_t>(nearest_code(block_, levels_, x));
    return number_of(block_, levels_, block_.codes[j]);
  }
  void end_group(std::string& out) override { append_fitted(type_, block_, out); }

 private:
  WeightType type_;
  BlockLevels levels_;
  BlockCodes block_;
};

}  // namespace

std::unique_ptr<RowCoder> block_coder(WeightType type) {
  if (type == WeightType::nf4 || type == WeightType::nf4_1) return nf4_coder(type);
  if (is_k_type(type)) return k_coder(type);
  return std::make_unique<BlockCoder>(type);
}

}  // namespace tern
