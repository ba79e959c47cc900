#include "apps/identity.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "infer/load.h"
#include "model/adapter_files.h"

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
  if (!model.adapter.empty()) {
    identity["adapter"] = file_identity(peft_weights_file(model.adapter));
    identity["adapter_config"] = file_identity(peft_config_file(model.adapter));
  }
  return identity;
}

}  // namespace tern
