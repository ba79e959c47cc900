#include "model/parameter_reader.h"

#include <optional>

#include "base/error.h"
#include "formats/gguf/model.h"
#include "model/check_weights.h"
#include "model/gguf_weights.h"
#include "model/visit_weights.h"
#include "model/weights_loader.h"

namespace tern {

struct ParameterReader::Files {
  const ModelSpec& spec;
  std::optional<Gguf> gguf;
  std::optional<WeightsLoader> loader;
};

ParameterReader::ParameterReader(const ModelSpec& spec, const std::string& model_dir)
    : files_(new Files{spec, {}, {}}) {
  const auto require = [](const WeightsCheck& check) {
    if (!check.problems.empty()) throw Error(ErrorKind::bad_file, "{}", check.problems.front());
  };
  if (is_gguf_path(model_dir)) {
    require(check_gguf_weights(spec, files_->gguf.emplace(model_dir)));
  } else {
    const std::string path = weights_file(model_dir);
    require(check_weights(spec, path));
    files_->loader.emplace(spec, path);
  }
}
ParameterReader::~ParameterReader() = default;

Tensor ParameterReader::read(const ParameterInfo& info, DType dtype, Arena& arena) {
  if (last_ == info.name && kept_.dtype() == dtype) return kept_;
  kept_ = {}, last_ = "";
  Tensor t = arena.allocate(dtype, info.shape, MemoryClass::weights);
  files_->gguf ? read_gguf_parameter(files_->spec, *files_->gguf, info, t) : files_->loader->load(info, t);
  kept_ = t, last_ = info.name;
  return t;
}

}  // namespace tern
