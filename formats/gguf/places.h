#pragma once
// Where the tensors of a Hugging Face file stand in a GGUF file.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

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

}  // namespace tern
