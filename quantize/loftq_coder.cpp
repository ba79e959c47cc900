#include "quantize/loftq_coder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/visit_weights.h"
#include "quantize/loftq.h"

namespace tern {

LoftqCoder::LoftqCoder(const ModelSpec& spec, const ReadParameter& read, int64_t rank, int rounds,
                       const std::string& base_model, Arena& arena)
    : read_(read), rounds_(rounds), errors_(static_cast<size_t>(rounds)) {
  config_.targets.all_linear = true;
  config_.rank = rank, config_.alpha = static_cast<double>(rank);
  config_.base_model = base_model;
  spec_ = with_adapters(spec, config_, "--rank");
  adapters_ = empty_weights(spec_);
  for_each_adapter(spec_, adapters_, [&](const ParameterInfo& info, Tensor& t) {
    t = arena.allocate(DType::f32, info.shape, MemoryClass::weights);
  });
  initialize_adapters(spec_, adapters_, 1);
  for_each_linear(spec_, adapters_, [&](const ParameterInfo& info, Linear& linear) { linears_[info.name] = &linear; });
}

const CodedMatrix& LoftqCoder::code(const ParameterInfo& info, WeightType type) {
  if (info.name == name_) return matrix_;
  const Tensor t = read_(info);
  std::vector<Branch>& branches = linears_.at(info.name)->branches;
  std::vector<LowRankRows> parts;
  for (const Branch& b : branches) {
    const int64_t most = std::min(b.row_end - b.row_begin, info.shape[1]);
    if (b.rank > most)
      throw Error(ErrorKind::usage, "--rank: {}; {} of '{}' has {} directions, choose that or less", b.rank,
                  name_of(b.module), info.name, most);
    parts.push_back({b.row_begin, b.row_end, b.rank});
  }
  LoftqCodes codes = loftq(type, t.span<float>(), info.shape[1], std::move(parts), rounds_);
  const auto put = [](const std::vector<double>& from, const Tensor& to) {
    std::ranges::transform(from, to.span<float>().begin(), [](double x) { return static_cast<float>(x); });
  };
  for (size_t i = 0; i < branches.size(); ++i)
    put(codes.parts[i].a, branches[i].a), put(codes.parts[i].b, branches[i].b);
  for (size_t r = 0; r < errors_.size(); ++r) errors_[r] += codes.errors[r];
  squares_ += codes.squares;
  matrix_.rows = std::move(codes.rows), name_ = info.name;
  return matrix_;
}

std::vector<double> LoftqCoder::relative_errors() const {
  std::vector<double> relative;
  for (const double e : errors_) relative.push_back(squares_ > 0 ? std::sqrt(e / squares_) : 0);
  return relative;
}

void LoftqCoder::save(const std::string& dir, Io& io) const { save_adapters(spec_, config_, adapters_, dir, io); }

}  // namespace tern
