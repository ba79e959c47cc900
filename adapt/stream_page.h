#pragma once
// OUT/page.html of a stream of tasks: one file for a browser, without a network.

#include <string>

#include "adapt/stream.h"

namespace tern {

/// The page of a stream as far as it has come: a line of scores for each task, what each task left for the next, the matrix, and AP, FT, BWT, FWT
/// after the last task. A stream that never learns task by task (multitask) has the matrix alone. The browser reads the page anew until the
/// stream is done.
/// Order   names no time and no OUT, so that a stream which was broken off ends with the bytes of one that was not.
std::string stream_page(const StreamSettings&, const StreamResult&);

}  // namespace tern
