#pragma once
// The files of a text that a person names: one, or a folder of them.

#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// Whether a file's name says that each of its lines is an object of JSON: .jsonl, .ndjson.
bool is_jsonl(std::string_view path);
/// The files that `path` stands for. A file stands for itself. A folder stands for the files in it and below it whose
/// names say that they are text (.txt, .text, .md, .jsonl, .ndjson), in the order of their paths' bytes, without links
/// and names that begin with a dot.
/// Errors  bad_file: nothing is there; a folder without such a file.
std::vector<std::string> data_files(const std::string& path);

}  // namespace tern
