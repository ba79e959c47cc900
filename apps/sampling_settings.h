#pragma once
// How the verbs that write text decide how to draw: flags over generation_config.json over neutral values.

#include <string>
#include <vector>

#include "formats/hf/generation_config.h"
#include "infer/sampling.h"

namespace tern {

class Options;

struct SettingOrigin {
  std::string name;
  double value;
  std::string origin;  // a flag, a file, "default"
};
struct SamplingSettings {
  SamplingOptions sampling;
  std::vector<SettingOrigin> origins;
};
/// Errors  usage: a flag that would do nothing at temperature 0; bad_file: a value of the file out of its range.
SamplingSettings sampling_settings(const Options&, const GenerationConfig&);

}  // namespace tern
