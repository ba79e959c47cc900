#pragma once
// MODEL on the command line: a directory, a bare config.json, a GGUF file, or a name in the local Hugging Face cache.
// Never a download.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

struct HfConfig;

/// What a model directory holds. Paths are full; an empty string or list: there is no such file.
struct ModelDir {
  std::string name;               // as the user gave it, for messages
  std::string path;               // the directory; for a bare config file the directory it lies in; a GGUF file
  std::string config;             // config.json, or the bare file, or the GGUF file: read with read_model_config
  std::string generation_config;  // generation_config.json
  std::string weights;            // model.safetensors or model.safetensors.index.json: open with Weights; a GGUF file
  std::vector<std::string> tokenizer_files;  // tokenizer.json, tokenizer_config.json, special_tokens_map.json,
      // added_tokens.json, vocab.json, merges.txt, tokenizer.model, chat_template.jinja
  bool bare_config = false;  // MODEL was a config file, or a directory with nothing but a config
  std::vector<std::string> notes;

  /// Whether Tokenizer::load(path) has something to read.
  bool has_tokenizer() const;
  bool is_gguf() const;
};

/// Looks up an environment variable by name; a test gives its own function.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view)>;
EnvironmentLookup environment_lookup();

struct ResolveOptions {           // what resolve_model asks for
  bool need_weights = true;       // false: a bare config.json will do (training from scratch, inspecting)
  EnvironmentLookup environment;  // empty: environment_lookup()
};

/// Finds MODEL. A path that exists wins over a name of the cache.
/// Source  cache layout and the order HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, ~/.cache: as
///         huggingface_hub, behaviour observed by running it.
/// Errors  bad_file, with the remedy: nothing there (the message gives `hf download
///         ORG/NAME`); a directory that holds only pickles, ONNX, TensorFlow or Flax weights, an adapter, or weights in a
///         packing that tern does not read; no config.json; shards that are not all there; need_weights and no weights.
ModelDir resolve_model(const std::string& model, const ResolveOptions& = {});

/// config.json, or what a GGUF file says in its place. Errors: those of read_hf_config and gguf_config.
HfConfig read_model_config(const ModelDir&);

}  // namespace tern
