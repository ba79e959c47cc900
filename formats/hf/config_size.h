#pragma once
// How large a configuration's model is.

#include "formats/hf/config.h"

namespace tern {

/// Sizes of a model, as doubles, which no value of a file overflows. `parameters` equals num_parameters of spec/ as long as a
/// double counts exactly.
struct HfSize {
  double parameters = 0;
  double row = 0;      // numbers that the pass of one token makes, over all layers
  double experts = 0;  // experts, over all layers
};
HfSize hf_config_size(const HfConfig&);

}  // namespace tern
