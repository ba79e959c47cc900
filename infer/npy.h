#pragma once
// NumPy's file of one array.

#include <cstdint>
#include <span>
#include <string>

namespace tern {

class Io;

/// A (values.size() / width, width) array of f32, row by row, version 1.0 of the format, written whole or not at all.
/// Errors  does_not_fit, as write_file_atomically.
/// Source  numpy.lib.format (recalled), judged by numpy.load (dev/golden/embeddings.py --check).
void write_npy(Io&, const std::string& path, std::span<const float> values, int64_t width);

}  // namespace tern
