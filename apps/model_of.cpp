#include "apps/model_of.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "formats/gguf/model.h"
#include "formats/hf/config.h"
#include "spec/presets.h"

namespace tern {

ModelSpec model_of(const std::string& name) {
  if (const std::optional<ModelSpec> preset = preset_model(name)) return *preset;
  const std::filesystem::path path(name);
  if (std::filesystem::is_directory(path)) return model_spec(read_hf_config((path / "config.json").string()));
  if (is_gguf_path(name) && std::filesystem::exists(path)) return model_spec(gguf_config(Gguf(name)));
  if (std::filesystem::exists(path)) return model_spec(read_hf_config(name));
  const std::vector<std::string_view> presets = preset_names();
  throw Error(ErrorKind::bad_file,
              "{}: neither a model directory, nor a config.json, nor a GGUF file, nor one of the presets ({}){}", name,
              join({presets.begin(), presets.end()}, ", "), did_you_mean(name, presets));
}

}  // namespace tern
