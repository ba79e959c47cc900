#pragma once
// How verbs that write text draw tokens. A value comes from a flag, else from generation_config.json, else it is neutral.

#include <string>
#include <vector>

#include "formats/hf/generation_config.h"
#include "infer/sampling.h"

namespace tern {

class Options;

/// A setting, its value, and where it comes from.
struct SettingOrigin {
  std::string name;
  double value;
  std::string origin;  // a flag, a file, "default"
};
struct SamplingSettings {
  SamplingOptions sampling;
  std::vector<SettingOrigin> origins;
};
/// The settings that options and file give. Errors  usage: a flag has no effect at temperature 0; bad_file: a value of the file is out of its range.
SamplingSettings sampling_settings(const Options&, const GenerationConfig&);

}  // namespace tern
