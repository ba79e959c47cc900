#pragma once
// GGUF as a model: its metadata as a configuration, its tensors under the names of Hugging Face files, and back. A
// family is one row of the table in formats/gguf/families.cpp.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf.h"
#include "formats/hf/config.h"

namespace tern {

class GgufMetadata;  // formats/gguf/write.h

/// Whether MODEL names a GGUF file: by its ending.
bool is_gguf_path(std::string_view path);

/// Where a tensor of a Hugging Face file stands in a GGUF file, and how its numbers differ there. A matrix is always
/// (out, in), also GPT-2's.
struct GgufPlace {
  /// llama.cpp's llama turns neighbouring elements of a head, transformers elements half a head apart: rows of q and k
  /// are stored in the other order. Row 2j + s of a head in the GGUF file is row s·(d/2) + j in the Hugging Face file.
  enum class Heads : uint8_t { plain, queries, keys };
  std::string name;  // "blk.0.attn_q.weight"
  Heads interleaved = Heads::plain;
  int64_t expert = -1;    // the tensor holds the rows of all experts, one expert behind the other; -1: no experts
  bool sorted = false;    // rows come as queries, keys, values of all heads, not in the groups of Hugging Face's file
  bool plus_one = false;  // of norms: 1 + w
};
/// Errors  usage: a family or a tensor that GGUF has no place for, as far as tern knows.
GgufPlace gguf_place(std::string_view model_type, std::string_view hf_name);
/// The same of one expert's rows in a Hugging Face tensor of all experts, `part` of those by turns (HfNames, '&').
GgufPlace gguf_place_of_expert(std::string_view model_type, std::string_view hf_name, int64_t expert, int64_t part);
/// Tensors that are no parameters: tables of rotary frequencies, which follow from the configuration.
bool is_gguf_rope_table(std::string_view name);
std::vector<std::string> gguf_families();

/// The configuration that the file's metadata and tensors imply. Numbers kept as f32 are read as the shortest decimal
/// that gives them, so 1e-5 stays 1e-5. Llama 3's rotary scaling, which the file holds as a table of divisors, is found
/// again from that table, or kept as the table.
/// Errors  bad_file: "PATH: key 'K': …"; an architecture tern does not read; one file of several.
HfConfig gguf_config(const Gguf&);
/// The other way. Errors  usage: what GGUF, or tern's writer, has no key for.
void add_gguf_config(GgufMetadata&, const HfConfig&);
/// Divisors of the rotary frequencies that the file holds as tensor rope_freqs.weight; empty: none.
std::vector<float> gguf_rope_divisors(const HfConfig&);

}  // namespace tern
