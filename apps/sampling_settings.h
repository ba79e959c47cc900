#pragma once
// How the verbs that write text decide how to draw: flags over generation_config.json over neutral values.

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "formats/generation_config.h"
#include "infer/sampling.h"

namespace tern {

class Options;

struct SamplingSettings {
  SamplingOptions sampling;
  Json origins;  // per setting its value and where it came from
};
/// Errors  usage: a flag that would do nothing at temperature 0; bad_file: a value of the file out of its range.
SamplingSettings sampling_settings(const Options&, const GenerationConfig&);

}  // namespace tern
