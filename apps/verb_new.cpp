// tern new: the configuration of a model of given sizes, beside its tokenizer, for tern train --from-scratch.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/hf_output.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/options.h"
#include "base/publish.h"
#include "base/rounding.h"
#include "base/units.h"
#include "formats/hf/config.h"
#include "formats/tokenizer/tokenizer.h"
#include "spec/model_spec.h"

namespace tern {
namespace {

// A gated MLP of 8/3 of the width has the parameters of a plain one of four times the width; rounded up to what kernels like.
int64_t mlp_width(int64_t width) { return round_up(8 * width / 3, width >= 512 ? 64 : 16); }

void require_heads(int64_t width, int64_t heads, int64_t kv_heads) {
  if (width % heads != 0) throw Error(ErrorKind::usage, "--heads {}: does not divide --width {}", heads, width);
  if (width / heads % 2 != 0)
    throw Error(ErrorKind::usage,
                "--heads {}: a head of --width {} would have {} elements, an odd number; rotary positions turn pairs",
                heads, width, width / heads);
  if (heads % kv_heads != 0)
    throw Error(ErrorKind::usage, "--kv-heads {}: does not divide the {} heads", kv_heads, heads);
}

// The sizes of the command, in the family llama.
HfConfig sized_config(const Options& options, const std::optional<Tokenizer>& tokenizer) {
  HfConfig c;
  c.architectures = {"LlamaForCausalLM"};
  c.num_hidden_layers = options.integer("layers");
  c.hidden_size = options.integer("width");
  c.num_attention_heads = options.integer("heads");
  c.num_key_value_heads = options.has("kv-heads") ? options.integer("kv-heads") : c.num_attention_heads;
  require_heads(c.hidden_size, c.num_attention_heads, c.num_key_value_heads);
  c.head_dim = c.hidden_size / c.num_attention_heads;
  c.intermediate_size = options.has("mlp-width") ? options.integer("mlp-width") : mlp_width(c.hidden_size);
  c.max_position_embeddings = options.integer("context");
  c.norm_eps = 1e-5;
  c.rope.type = RopeType::standard;
  c.tie_word_embeddings = options.flag("tie");
  c.vocab_size = tokenizer ? tokenizer->vocab_size() : options.integer("vocab-size");
  if (!tokenizer) return c;
  c.bos_token_id = tokenizer->bos(), c.pad_token_id = tokenizer->pad();
  if (const auto eos = tokenizer->eos()) c.eos_token_ids = {*eos};
  return c;
}

std::optional<Tokenizer> given_tokenizer(const Options& options) {
  const bool named = options.has("tokenizer");
  if (named && options.given("vocab-size"))
    throw Error(ErrorKind::usage,
                "--tokenizer and --vocab-size are both given; the tokenizer says how many tokens there are");
  if (!named && !options.has("vocab-size"))
    throw Error(
        ErrorKind::usage,
        "how many tokens the model knows is not said; give --tokenizer PATH (tern tokenize --train makes one), or "
        "--vocab-size N");
  if (!named) return {};
  return Tokenizer::load(options.text("tokenizer"));
}

}  // namespace

int run_new(const Options& options) {
  if (!options.has("output")) throw Error(ErrorKind::usage, "--output is not given; name the directory to write");
  const std::string out = options.text("output");
  check_hf_output(out);
  const std::optional<Tokenizer> tokenizer = given_tokenizer(options);
  const HfConfig config = sized_config(options, tokenizer);
  const std::string text = hf_config_json(config);
  const int64_t parameters = num_parameters(model_spec(config));
  Io& io = real_io();
  OutputDirectory output(io, out);
  if (tokenizer) tokenizer->save(output.temporary(), io);
  write_file_atomically(io, join_path(output.temporary(), "config.json"), text);
  output.publish();
  if (options.flag("json")) {
    print_json({{"output", out},
                {"parameters", parameters},
                {"vocab_size", config.vocab_size},
                {"intermediate_size", config.intermediate_size},
                {"tokenizer", tokenizer.has_value()}});
    return 0;
  }
  print_out(fmt::format(
      "{}  llama: {} of width {}, {} tokens, {} parameters\nto train it: tern train {} --from-scratch{} "
      "--data TEXT --output run\n",
      out, counted(config.num_hidden_layers, "layer"), config.hidden_size, format_with_commas(config.vocab_size),
      format_with_commas(parameters), out, tokenizer ? "" : " --tokenizer PATH"));
  return 0;
}

}  // namespace tern
