#pragma once
// The files of a text that a person names: one, or a folder of them.

#include <string>
#include <vector>

namespace tern {

/// A file: itself. A folder: the files in it and below that are text by their names (.txt, .text, .md, .jsonl, .ndjson), in the order
/// of their paths' bytes; names that begin with a dot, links, and all other files are left out.
/// Errors  bad_file: nothing is there; a folder without such a file.
std::vector<std::string> data_files(const std::string& path);

}  // namespace tern
