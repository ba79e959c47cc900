#pragma once
// --stream-window: a window of blocks or layers that weights stream through.

#include <optional>
#include <string>

#include "base/json.h"
#include "infer/stream_plan.h"

namespace tern {

class Options;

/// What --stream-window asks for; none if it is not given. Errors: usage: a text that says no window, or more at a time than it holds;
/// an option beside it that asks for weights in memory; f64, which does not stream.
std::optional<StreamWindow> stream_window(const Options&, const ModelDescription&);
/// "a window of 2 blocks moves over the model's 33 (36.1 MiB at most)", and its figures. The plan has a window.
std::string window_words(const StreamPlan&);
Json window_json(const StreamPlan&);

}  // namespace tern
