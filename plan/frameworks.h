#pragma once
// What other frameworks can run: restrictions of the search space. A plan made under them can be written as the
// framework's command line or file (plan/emit.h). The facts hold for the versions that the scripts in dev/emit/ check.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/strategy.h"
#include "plan/train_job.h"
#include "spec/model_spec.h"

namespace tern {

/// Megatron-LM, TorchTitan, DeepSpeed.
enum class Framework : uint8_t { megatron, torchtitan, deepspeed };
inline constexpr std::array kFrameworks{Framework::megatron, Framework::torchtitan, Framework::deepspeed};
std::string_view name_of(Framework);  // "megatron", …

/// "" where the framework can train this model for this job, else what it lacks: a part of the model, a number or a
/// type.
std::string why_no_model(Framework, const ModelSpec&, const TrainJob&);
/// "" where the framework runs this mesh and pipeline with the job's sequences on nodes of `devices_of_node` devices,
/// all nodes used alike; else what it lacks.
std::string why_not_run(Framework, const TrainJob&, const OuterChoice&, int64_t devices_of_node);
/// "" where the framework runs this strategy of all layers, under a choice that it runs; else what it lacks.
std::string why_not_run(Framework, const OuterChoice&, const LayerStrategy&);
/// "--module llama3 --config llama3_8b" for a model of torchtitan's registry with these numbers, else "".
std::string torchtitan_model(const ModelSpec&);
/// The part of the search space that the framework runs, in words, for Plan::restrictions.
std::string limits_in_words(Framework);

}  // namespace tern
