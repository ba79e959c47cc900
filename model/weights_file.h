#pragma once
// What loading and checking of weights share. Stays in model/.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors/index.h"
#include "model/weights.h"

namespace tern {

/// The safetensors file or index of a model; a file's own path. Errors: bad_file: the directory has none.
std::string weights_file(const std::string& model_dir);
/// The tensor of this name, or without the prefix that files saved from the bare model lack; its own name is in the
/// view.
std::optional<TensorView> find_parameter(const ModelSpec&, const Weights&, const std::string& name);
/// The shape in the file of a fragment of `info`.
std::vector<int64_t> fragment_shape(const ParameterInfo& info, const Fragment&);
/// Of a tied model whose files hold the head as well: what is wrong with it, "" if it equals the table. nullopt: the
/// model is not tied, or there is no such tensor.
std::optional<std::string> judge_tied_head(const ModelSpec&, const Weights&);

inline constexpr std::string_view kTiedHead = "lm_head.weight";

}  // namespace tern
