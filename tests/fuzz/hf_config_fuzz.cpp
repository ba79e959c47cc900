// Any bytes as config.json and as generation_config.json: an Error, or values that survive being written and read
// again; of a config also a model whose parameters are as many as the reader counted.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/hf/config.h"
#include "formats/hf/generation_config.h"
#include "spec/model_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  HfConfig config;
  bool read = false;
  try {
    config = parse_hf_config(text, "fuzz");
    read = true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) std::abort();
  }
  if (read) {  // an Error from here on is a failure: what was read can be written and read
    const double want = hf_config_size(config).parameters;
    if (!(std::abs(static_cast<double>(num_parameters(model_spec(config))) - want) <= 1e-9 * want)) std::abort();
    config.notes.clear();
    for (const HfForm form : {HfForm::v5, HfForm::v4}) {
      HfConfig back = parse_hf_config(hf_config_json(config, form), "written");
      back.architectures = config.architectures;
      back.notes.clear();
      if (!(back == config)) std::abort();
    }
  }
  try {
    const GenerationConfig g = parse_generation_config(text, "fuzz");
    const std::string written = generation_config_json(g);
    if (generation_config_json(parse_generation_config(written, "written")) != written) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) std::abort();
  }
  return 0;
}
