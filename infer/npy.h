#pragma once
// Writes an array as a file of NumPy's format .npy.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tern {

class Io;
class OutputFile;

/// Writes a (rows, width) array of f32 in version 1.0 of the format, row by row. `path` is there only after finish(), and then whole (OutputFile).
/// Memory  it holds no rows. Errors  those of the Io.
/// Source  numpy.lib.format (recalled), judged by numpy.load (dev/golden/embeddings.py --check).
class NpyWriter {
 public:
  NpyWriter(Io&, std::string path, int64_t rows, int64_t width);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  /// Appends whole rows or parts of them.
  void append(std::span<const float> values);
  /// Completes the file. All rows must have been appended.
  void finish();

 private:
  std::unique_ptr<OutputFile> file_;
  int64_t missing_;  // numbers still to come
};

}  // namespace tern
