#pragma once
// Whether a command may write a file at a path: checked before work that may take long, so that nothing else is lost to it.

#include <functional>
#include <string>
#include <string_view>

#include "base/io.h"

namespace tern {

/// Refuses a path whose folder is missing, that is a folder, or that holds something else than what is written there. `option`: names the path in
/// messages. `what`: what is written, with its article ("a trace"). `is_one`: whether a file's bytes are such a thing, which may be replaced.
/// Pipes and devices are not read. An empty path passes. Errors: usage.
void require_output_place(std::string_view option, const std::string& path, std::string_view what,
                          const std::function<bool(const std::string&)>& is_one, Io&);

}  // namespace tern
