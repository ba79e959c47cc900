#include "apps/identity.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "infer/load.h"
#include "model/adapter_files.h"
#include "model/gated_adapter.h"

namespace tern {

Json file_identity(const std::string& path) {
  const auto info = real_io().stat(path);
  std::error_code ignored;
  const std::filesystem::path full = std::filesystem::canonical(path, ignored);
  return {{"path", ignored ? path : full.string()},
          {"bytes", info ? info->size_bytes : 0},
          {"modified_ns", info ? info->modified_ns : 0}};
}

Json weights_identity(const ModelDescription& model) {
  Json identity = file_identity(model.dir.weights);
  if (!model.adapter.empty() && is_gated_adapter(model.adapter)) {
    for (const char* file : {"gates.json", "gates.safetensors"})
      identity[file] = file_identity(join_path(model.adapter, file));
    for (const std::string& branch : read_gated_adapter(model.adapter).branches)
      identity["branches"].push_back(
          {file_identity(peft_weights_file(branch)), file_identity(peft_config_file(branch))});
  } else if (!model.adapter.empty()) {
    identity["adapter"] = file_identity(peft_weights_file(model.adapter));
    identity["adapter_config"] = file_identity(peft_config_file(model.adapter));
  }
  return identity;
}

}  // namespace tern
