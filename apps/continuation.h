#pragma once
// What tern generate is to write: a prompt, how it goes on, and where it ends.

#include <string>
#include <vector>

#include "apps/sampling_settings.h"
#include "infer/request.h"

namespace tern {

class Options;
struct ModelDescription;

struct Continuation {
  Request request;
  SamplingSettings settings;
  bool length_of_file = false;  // generation_config.json says how many tokens
  int64_t prompt_tokens() const { return static_cast<int64_t>(request.prompt.size()); }
};

/// The model of the command. Errors: usage: an encoder; bad_file: no tokenizer; those of describe_model.
ModelDescription model_to_continue(const Options&);
/// --prompt or --prompt-file; with neither what is piped in, if it is anything. Errors: usage, if both are given or there is no
/// prompt; bad_file.
std::string read_prompt(const Options&);
/// --samples, or what --samples-rule makes of its numbers. Errors: usage.
int64_t samples_asked(const Options&);
/// Errors: usage, bad_file, naming the option or file.
Continuation read_continuation(const Options&, const ModelDescription&, const std::string& prompt);
/// The tokens of a prompt; of an empty one the token that texts begin with. Errors: usage: a token that the model does not
/// know.
std::vector<int32_t> prompt_tokens(const ModelDescription&, const std::string& prompt);
/// Tokens of the longest sequence: --context, else `wanted`, within what the model allows. Errors: usage: beyond that.
int64_t longest_context(const Options&, const ModelDescription&, int64_t wanted);
/// The same of one prompt with --max-tokens. Errors: usage: no room after the prompt too.
int64_t context_for(const Options&, const ModelDescription&, const Continuation&);

}  // namespace tern
