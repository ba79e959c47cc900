#pragma once
// NumPy's file of one array.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tern {

class Io;
class OutputFile;

/// A (rows, width) array of f32, version 1.0 of the format, row by row as the rows come. An OutputFile
/// until finish(): `path` is there whole or not at all.
/// Memory  none of it is held. Errors  as the Io.
/// Source  numpy.lib.format (recalled), judged by numpy.load (dev/golden/embeddings.py --check).
class NpyWriter {
 public:
  NpyWriter(Io&, std::string path, int64_t rows, int64_t width);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  void append(std::span<const float> values);
  /// All rows must have been appended.
  void finish();

 private:
  std::unique_ptr<OutputFile> file_;
  int64_t missing_;  // numbers still to come
};

}  // namespace tern
