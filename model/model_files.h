#pragma once
// Loads ModelWeights from Hugging Face directories and saves them.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/weights.h"

namespace tern {

struct HfConfig;
class Io;

/// Bytes of matrices that stay coded, by the parameter's name.
using CodedBytes = std::map<std::string, int64_t>;
/// Bytes of the matrices that WeightsIn::coded_file leaves coded; empty if the files have none, or if the kernels
/// multiply no coded rows in this type. Reads headers alone. Errors: bad_file: files that cannot be read.
CodedBytes coded_bytes(const ModelSpec&, const std::string& model_dir, DType);
/// Whether these files may hold coded matrices: GGUF, coded tensors (coded_tensors.h), or other programs' (hf_quantized.h).
bool holds_coded(const ModelSpec&, const std::string& model_dir);

/// Loads every parameter, converting to `dtype`. `model_dir`: the directory, or the safetensors file, the index or the
/// GGUF file itself. Files of the bare model, without the prefix `model.` or `transformer.`, are read too; if they
/// also hold a tied head, it must equal the table. Errors: bad_file naming file, tensor and, if they differ, both
/// shapes: another shape or an unreadable type, a missing tensor, or a tensor that belongs to no parameter (except
/// buffers that can be computed again, such as `rotary_emb.inv_freq` and GPT-2's `attn.bias`: they are skipped).
/// elsewhere: units whose parameters are not read (allocate_weights). Matrices of units with Unit::stored
/// (model/coded_base.h) stay as the files code them, mapped.
ModelWeights load_weights(const ModelSpec&, const std::string& model_dir, DType, Arena&,
                          const std::vector<bool>& elsewhere = {});
/// In what form load_weights_to_infer keeps the weights that the files hold.
enum class WeightsIn : uint8_t {
  coded_file,  // coded matrices stay coded (coded_bytes), in mapped pages: the same bits in a fraction of the
               // memory; all other matrices as with mapped_file
  coded_int8,  // as coded_file, but every matrix whose types are integers times scales (kernels/cpu/code_groups.h) is
  // multiplied in integers; rows of the token table are still gathered as numbers. Errors: bad_file: no such matrix
  mapped_file,  // nothing is copied: the pages are the page cache's, shared by all processes that use the file
  own_memory,   // copied to huge pages: decoding a token, which reads all weights, then takes less time
                // (benchmarks/reports/inference_xeon2_2026-11-22.md)
};
/// Bytes of the matrices that stay coded with this `in`. coded_int8 can leave more of them coded: integer products serve every dtype but f64.
CodedBytes coded_bytes(const ModelSpec&, const std::string& model_dir, DType, WeightsIn in);
/// Whether load_weights_to_infer uses any uncoded matrix of these files where it lies;
/// if not, mapped_file and own_memory do the same. Errors: bad_file: no weights.
bool reads_in_place(const ModelSpec&, const std::string& model_dir, DType);
/// As load_weights, for a program that only infers. Matrices are packed for the exact kernels, or, where the
/// kernels read plain weights (reads_plain_weights) and the file holds them in `dtype`, kept as WeightsIn says. Either way
/// their bytes count as weights.
/// Hazard  a mapped file must not shrink while the weights are in use (formats/safetensors/safetensors.h).
ModelWeights load_weights_to_infer(const ModelSpec&, const std::string& model_dir, DType, Arena&,
                                   WeightsIn = WeightsIn::mapped_file);
/// A sentence for each oddity of these files that is no error, such as an index with a wrong count
/// of bytes. Empty for files that cannot be read; the error of load_weights says why they cannot.
std::vector<std::string> notes_on_weights(const std::string& model_dir);
/// The matrix and bias of BERT's pooler, which stands beside an encoder's weights. Errors  bad_file: these weights have
/// none; those of load_weights.
Linear load_pooler(const ModelSpec&, const std::string& model_dir, DType, Arena&);
/// Writes config.json and model.safetensors (sharded above max_shard_bytes) in `dtype`: f32, bf16, f16 or f64. The
/// directory reloads in transformers. Tokenizer files and generation_config.json are the caller's. Errors: those of
/// write_model_weights and write_file_atomically.
void save_model(const ModelSpec&, const HfConfig&, const ModelWeights&, DType, const std::string& dir, Io&,
                int64_t max_shard_bytes = int64_t{5} << 30);

}  // namespace tern
