#pragma once
// How large a configuration's model is.

#include "formats/hf/config.h"

namespace tern {

/// How large the model is, in doubles, which no value of a file overflows. `parameters` equals num_parameters of spec/ as long
/// as a double counts exactly.
struct HfSize {
  double parameters = 0;
  double row = 0;      // numbers that a token's pass makes, in all layers together
  double experts = 0;  // number of experts in all layers together
};
HfSize hf_config_size(const HfConfig&);

}  // namespace tern
