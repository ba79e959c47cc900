#pragma once
// Reads and writes a PEFT directory as matrices in f64, without its model.

#include <span>
#include <string>

#include "adapt/adapter_matrix.h"
#include "base/dtype.h"
#include "formats/peft/config.h"

namespace tern {

class Io;

/// An adapter, and what its directory says of it.
/// Its matrices are in f64, whatever type the file's tensors have.
struct AdapterFile {
  std::string dir;
  PeftConfig config;
  AdapterMatrices matrices;
  DType dtype = DType::f32;  // the widest of its tensors
};
/// Reads a PEFT directory.
/// Errors  those of read_peft_config; bad_file, naming file and tensor: a tensor that is not the A or B of a module to which
///         adapter_config.json gives an adapter, or that has another shape or rank, lacks its partner, or has numbers that are not finite;
///         magnitudes (DoRA).
AdapterFile read_adapter_file(const std::string& dir);
/// The configuration of matrices that were combined from `files`. Its scale is 1 everywhere. Its targets are the names that all files give; if
/// one file has a pattern, they are whole paths.
PeftConfig combined_config(std::span<const AdapterFile> files, const AdapterMatrices&);
/// The widest type of the files.
DType combined_dtype(std::span<const AdapterFile> files);
/// Writes both files of a PEFT directory. Each number is rounded to `dtype` once. Errors: usage: `dtype` cannot hold a number; those of
/// write_safetensors.
void write_adapter_file(const AdapterMatrices&, const PeftConfig&, DType dtype, const std::string& dir, Io&);

}  // namespace tern
