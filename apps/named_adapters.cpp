#include "apps/named_adapters.h"

#include "apps/adapter_base.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "base/utf8.h"

namespace tern {

std::pair<std::string, std::string> name_and_folder(const std::string& option, const std::string& given) {
  const size_t equals = given.find('=');
  std::string name = given.substr(0, equals);
  if (equals == std::string::npos || name.empty() || equals + 1 == given.size())
    throw Error(ErrorKind::usage, "--{} {}: expected NAME=DIR, what requests call it and where it lies", option,
                make_printable(given));
  if (!is_valid_utf8(name))
    throw Error(ErrorKind::usage, "--{} {}: its name is not UTF-8, and answers in JSON could not name it", option,
                make_printable(given));
  return {std::move(name), given.substr(equals + 1)};
}

void take_named_adapters(const Options& options, const std::string& model_name, ModelDescription& model) {
  for (const std::string& given : options.list("adapter")) {
    const auto [name, dir] = name_and_folder("adapter", given);
    if (name == model_name)
      throw Error(ErrorKind::usage, "--adapter {}: the model itself is called {}; give another name, or --model-name",
                  given, name);
    for (const OfferedAdapter& other : model.offered)
      if (other.name == name)
        throw Error(ErrorKind::usage, "--adapter {}: {} is called so already; a name is one adapter's", given,
                    other.dir);
    take_adapter_beside(model, name, dir);
    warn_of_other_base(model.dir.name, dir);
  }
}

}  // namespace tern
