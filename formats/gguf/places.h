#pragma once
// Where the tensors of a Hugging Face file stand in a GGUF file.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

/// Where a tensor of a Hugging Face file stands in a GGUF file, and how its numbers differ there. A matrix is always
/// (out, in), also GPT-2's.
struct GgufPlace {
  /// llama.cpp's llama rotates neighbouring elements of a head, transformers rotates elements half a head apart. So the
  /// rows of q and k lie in another order. Row 2j + s of a head in the GGUF file is row s·(d/2) + j in the Hugging Face
  /// file.
  enum class Heads : uint8_t { plain, queries, keys };
  std::string name;  // "blk.0.attn_q.weight"
  Heads interleaved = Heads::plain;
  int64_t expert = -1;    // the tensor holds the rows of all experts, one expert behind the other; -1: no experts
  bool sorted = false;    // rows come as queries, keys, values of all heads, not in the groups of Hugging Face's file
  bool plus_one = false;  // of norms: 1 + w
};
/// Errors  usage: a family or a tensor that GGUF has no place for, as far as tern knows.
GgufPlace gguf_place(std::string_view model_type, std::string_view hf_name);
/// The place of one expert's rows of a Hugging Face tensor that holds all experts (HfNames, '&'). `part`: which of the
/// matrices whose rows alternate there.
GgufPlace gguf_place_of_expert(std::string_view model_type, std::string_view hf_name, int64_t expert, int64_t part);
/// Whether a tensor is a table of rotary frequencies. Such a table is no parameter: it follows from the configuration.
bool is_gguf_rope_table(std::string_view name);

}  // namespace tern
