#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tern {

namespace {

constexpr double kTau = 2 * std::numbers::pi;

// How far pair i turns per position without scaling: θ^(-2i/d).
std::vector<double> plain_frequencies(double theta, int64_t dim) {
  std::vector<double> f(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < f.size(); ++i)
    f[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
  return f;
}

// NTK-aware: the base grows with the declared length, so that the slowest pair is stretched by factor·length/trained -
// (factor-1).
double dynamic_theta(const RopeSpec& r, int64_t declared) {
  const double trained = static_cast<double>(r.original_context), dim = static_cast<double>(r.rotary_dim);
  const double length = std::max(static_cast<double>(declared), trained);
  TERN_CHECK(r.rotary_dim > 2, "rope: dynamic scaling turns more than {} elements", r.rotary_dim);
  return r.theta * std::pow(r.factor * length / trained - (r.factor - 1), dim / (dim - 2));
}

// YaRN: pairs that turn more than beta_fast times over the trained context stay, those under beta_slow turns are
// divided by the factor, a linear ramp over the pair's index between.
void scale_yarn(const RopeSpec& r, std::vector<double>& f) {
  const double dim = static_cast<double>(r.rotary_dim);
  const auto pair_that_turns = [&](double turns) {
    return dim * std::log(static_cast<double>(r.original_context) / (turns * kTau)) / (2 * std::log(r.theta));
  };
  double low = pair_that_turns(r.beta_fast), high = pair_that_turns(r.beta_slow);
  if (r.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < f.size(); ++i) {
    const double divided = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    f[i] = f[i] / r.factor * divided + f[i] * (1 - divided);
  }
}

// Llama 3: wave lengths under trained/high_freq_factor stay, those above trained/low_freq_factor are divided by the
// factor, between them a blend linear in trained/wave length.
void scale_llama3(const RopeSpec& r, std::vector<double>& f) {
  const double trained = static_cast<double>(r.original_context);
  for (double& x : f) {
    const double turns = trained * x / kTau;  // over the trained context
    if (turns > r.high_freq_factor) continue;
    const double kept = std::clamp((turns - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor), 0.0, 1.0);
    x = (1 - kept) * x / r.factor + kept * x;
  }
}

double yarn_attention_factor(const RopeSpec& r) {
  if (r.attention_factor) return *r.attention_factor;
  const auto mscale = [&](double m) { return r.factor <= 1 ? 1.0 : 0.1 * m * std::log(r.factor) + 1.0; };
  return r.mscale != 0 && r.mscale_all_dim != 0 ? mscale(r.mscale) / mscale(r.mscale_all_dim) : mscale(1);
}

double longrope_attention_factor(const RopeSpec& r) {
  if (r.attention_factor) return *r.attention_factor;
  return r.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(r.factor) / std::log(static_cast<double>(r.original_context)));
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeSpec& r, int64_t declared) {
  RopeFrequencies out;
  std::vector<double>& f = out.per_position;
  f = plain_frequencies(r.kind == RopeKind::dynamic ? dynamic_theta(r, declared) : r.theta, r.rotary_dim);
  switch (r.kind) {
    case RopeKind::none:
    case RopeKind::standard:
    case RopeKind::dynamic:
      break;
    case RopeKind::linear:
      for (double& x : f) x /= r.factor;
      break;
    case RopeKind::llama3:
      scale_llama3(r, f);
      break;
    case RopeKind::yarn:
      scale_yarn(r, f);
      out.attention_factor = yarn_attention_factor(r);
      break;
    case RopeKind::longrope: {
      const std::vector<double>& divide = declared > r.original_context ? r.long_factor : r.short_factor;
      TERN_CHECK(divide.size() == f.size(), "rope: {} longrope factors for {} pairs", divide.size(), f.size());
      for (size_t i = 0; i < f.size(); ++i) f[i] /= divide[i];
      out.attention_factor = longrope_attention_factor(r);
      break;
    }
  }
  return out;
}

RopeTable rope_table(const RopeSpec& r, int64_t num_positions, int64_t declared) {
  RopeTable table;
  table.num_positions = num_positions;
  if (r.kind == RopeKind::none) return table;
  const RopeFrequencies f = rope_frequencies(r, declared);
  const size_t pairs = f.per_position.size(), count = static_cast<size_t>(num_positions) * pairs;
  table.cos64.resize(count), table.sin64.resize(count), table.cos.resize(count), table.sin.resize(count);
  for (size_t p = 0; p < static_cast<size_t>(num_positions); ++p)
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(p) * f.per_position[i];
      const size_t at = p * pairs + i;
      table.cos64[at] = f.attention_factor * std::cos(angle);
      table.sin64[at] = f.attention_factor * std::sin(angle);
      table.cos[at] = static_cast<float>(table.cos64[at]);
      table.sin[at] = static_cast<float>(table.sin64[at]);
    }
  return table;
}

int64_t rope_table_bytes(const ModelSpec& spec, int64_t num_positions) {
  int64_t per_position = 0;
  for (const RopeSpec* rope : {&spec.rope, &spec.local_rope})
    if (rope->kind != RopeKind::none) per_position += 12 * rope->rotary_dim;
  return num_positions * per_position;
}

RopeTable rope_table(const ModelSpec& spec, int64_t num_positions, int64_t declared) {
  RopeTable table = rope_table(spec.rope, num_positions, declared);
  if (spec.local_rope.kind != RopeKind::none)
    table.local.push_back(rope_table(spec.local_rope, num_positions, declared));
  return table;
}

}  // namespace tern
