#pragma once
// Which matrices of a model get an adapter: --target, for all verbs that have it.

#include <string>
#include <vector>

#include "formats/peft/config.h"

namespace tern {

class Options;
struct ModelSpec;

/// The names that an option of type list gives: with commas (and blanks) between them, or one by one.
std::vector<std::string> listed_names(const Options&, const char* option);
/// What --target says: names, or every matrix of the layers ("all-linear", or not given). Errors  usage: all-linear beside other names.
PeftTargets targets_from(const Options&);
/// Checks each name of --target by itself, so that none is passed over. Errors  usage: it is no matrix of a layer; the message lists those.
void require_targets(const ModelSpec&, const PeftConfig&);

}  // namespace tern
