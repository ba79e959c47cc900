#pragma once
// The file of arrivals of an asynchronous run: the order in which the server received gradients. OUT/arrivals.txt and --replay have this form.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// The text of a file of arrivals: "# N workers", then a line for each gradient in the order in which they were received: the number of its
/// worker, from 0.
std::string arrivals_text(const std::vector<int32_t>&, int workers);
/// The workers that such a text names, in order. `path` names the file in errors. A text without the first line, as older runs wrote it, may be
/// of any number of workers. Errors: usage: the text is of another number of workers; bad_file, naming a line that is not a number from 0 to
/// workers − 1.
std::vector<int32_t> parse_arrivals(std::string_view text, const std::string& path, int workers);

}  // namespace tern
