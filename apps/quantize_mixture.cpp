#include "apps/quantize_mixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/signals.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/io.h"
#include "base/progress.h"
#include "base/text.h"
#include "eval/scores.h"
#include "model/save_coded.h"
#include "model/visit_weights.h"
#include "quantize/mixture.h"
#include "quantize/sensitivity.h"

namespace tern {
namespace {

constexpr double kTolerance = 0.01;  // of --target-bytes

constexpr WeightType kOf32[] = {WeightType::lc2, WeightType::lc3, WeightType::lc4, WeightType::q5_1, WeightType::q8_0};
constexpr WeightType kOf256[] = {WeightType::lc2,  WeightType::lc3,  WeightType::lc4,
                                 WeightType::q5_k, WeightType::q6_k, WeightType::q8_0};

// Matrices of the layers whose rows are whole blocks of every type.
std::vector<ParameterInfo> mixed_parameters(const ModelSpec& spec) {
  std::vector<ParameterInfo> infos = parameters(spec);
  const std::span<const WeightType> types = mixture_types(spec);
  std::erase_if(infos, [&](const ParameterInfo& info) {
    return !has_codes(spec, info) ||
           !std::ranges::all_of(types, [&](WeightType type) { return fills_blocks(type, info.shape[1]); });
  });
  return infos;
}

// Bytes of all tensors with every mixed matrix in one type.
int64_t bytes_with(const ModelSpec& spec, GgufTypes types, WeightType all, DType dtype) {
  for (const ParameterInfo& info : mixed_parameters(spec)) types.single[info.name] = all;
  return coded_model_bytes(spec, types, dtype);
}

[[noreturn]] void refuse_target(const ModelDescription& model, const GgufTypes& types, DType dtype, int64_t target) {
  throw Error(
      ErrorKind::usage,
      "--target-bytes: {}; no mixture takes that ± 1 %: the weights of {} take from {} to {} bytes in whole steps of a "
      "matrix, with tables of tokens in {} (--table-type)",
      target, model.dir.path, bytes_with(model.spec, types, mixture_types(model.spec).front(), dtype),
      bytes_with(model.spec, types, mixture_types(model.spec).back(), dtype), name_of(types.tables));
}

std::vector<MatrixSensitivity> measure_all(const ModelSpec& spec, SensitivityMeter& meter, const std::string& kept) {
  const auto units = static_cast<int>(spec.units.size()) - 1;  // without the head
  std::vector<MatrixSensitivity> all;
  Progress progress("measure", units, real_clock(), {}, "units whose matrices were coded one by one");
  for (int unit = 0; unit < units; ++unit) {
    for (MatrixSensitivity& m : meter.measure(unit)) all.push_back(std::move(m));
    progress.update(unit + 1);
    stop_if_asked(unit + 1, units, kept);
  }
  progress.finish();
  return all;
}

}  // namespace

std::span<const WeightType> mixture_types(const ModelSpec& spec) {
  for (const ParameterInfo& info : parameters(spec))
    if (has_codes(spec, info) && !fills_blocks(WeightType::q6_k, info.shape[1])) return kOf32;
  return kOf256;
}

void stop_if_asked(int64_t done, int64_t units, const std::string& kept) {
  if (stop_requested())
    throw Error(ErrorKind::interrupted, "stopped after {} of {} units; {} keeps them, and the same command goes on",
                done, units, kept);
}

std::map<std::string, WeightType> Mixture::types() const {
  std::map<std::string, WeightType> types;
  for (const MixedMatrix& m : matrices) types[m.parameter] = m.type;
  return types;
}

void require_target(const Options& options, const ModelDescription& model, const GgufTypes& types, DType dtype) {
  if (!options.has("target-bytes"))
    throw Error(ErrorKind::usage, "--bits mixed: --target-bytes is not given; say how many bytes the weights may take");
  const auto target = static_cast<double>(options.integer("target-bytes"));
  const auto fewest = static_cast<double>(bytes_with(model.spec, types, mixture_types(model.spec).front(), dtype)),
             most = static_cast<double>(bytes_with(model.spec, types, mixture_types(model.spec).back(), dtype));
  if (target * (1 + kTolerance) < fewest || target * (1 - kTolerance) > most)
    refuse_target(model, types, dtype, options.integer("target-bytes"));
}

Mixture choose_types(const Options& options, const ModelDescription& model, const CalibrationText& text,
                     const GgufTypes& types, DType dtype, const std::string& measures, Arena& arena) {
  require_target(options, model, types, dtype);
  const Divergence divergence = [](std::span<const float> reference, std::span<const float> logits) {
    return compare_logits(reference, logits, 0).kl;
  };
  const std::span<const WeightType> candidates = mixture_types(model.spec);
  std::string names;
  for (const WeightType type : candidates) names += fmt::format(" {}", name_of(type));
  const std::string settings =
      fmt::format("sensitivity of{}, {} tokens of {:08x} in windows of {}", names, text.tokens.size(),
                  crc32c(std::as_bytes(std::span(text.tokens))), text.window);
  SensitivityMeter meter(model.spec, model.dir.path, text, candidates, divergence, arena, real_io(), measures,
                         settings);
  const std::vector<MatrixSensitivity> measured = measure_all(model.spec, meter, measures);

  const std::vector<ParameterInfo> infos = mixed_parameters(model.spec);
  TERN_CHECK(infos.size() == measured.size(), "{} matrices measured, {} in the mixture", measured.size(), infos.size());
  std::vector<MixtureItem> items;
  int64_t fewest = 0;
  for (size_t i = 0; i < infos.size(); ++i) {
    TERN_CHECK(infos[i].name == measured[i].parameter, "'{}' measured in the place of '{}'", measured[i].parameter,
               infos[i].name);
    MixtureItem item{{}, measured[i].divergence};
    for (const WeightType type : candidates) item.bytes.push_back(coded_matrix_bytes(infos[i], type));
    fewest += item.bytes.front();
    items.push_back(std::move(item));
  }
  const int64_t target = options.integer("target-bytes");
  const int64_t others = bytes_with(model.spec, types, candidates.front(), dtype) - fewest;
  const auto tolerance = static_cast<int64_t>(kTolerance * static_cast<double>(target));
  // As many as were asked for, if matrices are small enough for that; else a few more.
  std::optional<std::vector<int>> chosen = choose_mixture(items, target - tolerance - others, target - others);
  if (!chosen) chosen = choose_mixture(items, target - tolerance - others, target + tolerance - others);
  if (!chosen) refuse_target(model, types, dtype, target);
  Mixture mixture{.matrices = {}, .candidates = candidates, .target_bytes = target};
  for (size_t i = 0; i < items.size(); ++i) {
    const auto place = static_cast<size_t>((*chosen)[i]);
    mixture.matrices.push_back({infos[i].name, candidates[place], measured[i].divergence});
    mixture.divergence += measured[i].divergence[place];
  }
  return mixture;
}

std::string counts_text(const Mixture& mixture) {
  std::string text;
  for (const WeightType type : mixture.candidates) {
    const auto count = std::ranges::count(mixture.matrices, type, &MixedMatrix::type);
    if (count > 0) text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", count, name_of(type));
  }
  return text;
}

Json mixture_json(const Mixture& mixture) {
  Json matrices = Json::array();
  for (const MixedMatrix& m : mixture.matrices) {
    Json divergence;
    for (size_t t = 0; t < m.divergence.size(); ++t)
      divergence[std::string(name_of(mixture.candidates[t]))] = m.divergence[t];
    matrices.push_back(
        {{"parameter", m.parameter}, {"type", name_of(m.type)}, {"kl_divergence_alone", std::move(divergence)}});
  }
  return {{"target_bytes", mixture.target_bytes},
          {"kl_divergence_sum", mixture.divergence},
          {"matrices", std::move(matrices)}};
}

}  // namespace tern
