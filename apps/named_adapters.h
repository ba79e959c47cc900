#pragma once
// --adapter NAME=DIR, given several times: adapters that stand beside one model.

#include <string>
#include <utility>

#include "infer/load.h"

namespace tern {

class Options;  // base/options.h

/// The two parts of NAME=DIR. Errors  usage, naming the option: another form; a name that is not UTF-8.
std::pair<std::string, std::string> name_and_folder(const std::string& option, const std::string& given);

/// Puts the adapters that the options name beside a model of the name `model_name`. Errors  as above; usage: two adapters,
/// or an adapter and the model, have the same name; those of take_adapter_beside.
void take_named_adapters(const Options&, const std::string& model_name, ModelDescription&);

}  // namespace tern
