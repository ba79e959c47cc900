#pragma once
// A PEFT directory as matrices in f64, without its model.

#include <span>
#include <string>

#include "adapt/combine.h"
#include "base/dtype.h"
#include "formats/peft/config.h"

namespace tern {

class Io;

struct AdapterFile {
  std::string dir;
  PeftConfig config;
  AdapterMatrices matrices;
  DType dtype = DType::f32;  // the widest of its tensors
};
/// Errors  bad_file naming file and tensor: one that is no A or B of a module that adapter_config.json gives an adapter, of another
/// shape or rank, without its partner, with numbers that are not finite; magnitudes (DoRA); the errors of read_peft_config.
AdapterFile read_adapter_file(const std::string& dir);

/// What adapter_config.json says of matrices that were combined of `files`: scale 1 everywhere. The targets are the names that all
/// of them give, or, where one has a pattern, whole paths.
PeftConfig combined_config(std::span<const AdapterFile> files, const AdapterMatrices&);
/// The widest type of the files.
DType combined_dtype(std::span<const AdapterFile> files);
/// Writes both files of a PEFT directory, each number rounded once. Errors: usage: a number is beyond what `dtype` holds;
/// write_safetensors'.
void write_adapter_file(const AdapterMatrices&, const PeftConfig&, DType dtype, const std::string& dir, Io&);

}  // namespace tern
