#pragma once
// What `tern generate` is to write: the prompt, how tokens are drawn, and where the text ends.

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
  bool length_of_file = false;  // whether generation_config.json says how many tokens to write
  int64_t prompt_tokens() const { return static_cast<int64_t>(request.prompt.size()); }
};

/// The model of the command. Errors: usage: it is an encoder; bad_file: it has no tokenizer; those of describe_model.
ModelDescription model_to_continue(const Options&);
/// The text of --prompt or of the file --prompt-file; without both, the text on standard input, if that is no terminal. Errors: usage: both are
/// given, or there is no prompt; bad_file.
std::string read_prompt(const Options&);
/// The number of samples: --samples, or the number that follows from --samples-rule. Errors: usage.
int64_t samples_asked(const Options&);
/// What the options, and generation_config.json for those that are not given, ask for. Errors: usage, bad_file, naming the option or file.
Continuation read_continuation(const Options&, const ModelDescription&, const std::string& prompt);
/// The tokens of a prompt; if it is empty, the token with which texts begin. Errors: usage: the model lacks a token.
std::vector<int32_t> prompt_tokens(const ModelDescription&, const std::string& prompt);
/// The most tokens of a sequence: --context, or `wanted` if the model allows that many. Errors: usage: the model allows fewer than --context.
int64_t longest_context(const Options&, const ModelDescription&, int64_t wanted);
/// The same for one prompt with --max-tokens. Errors: as above; usage: there is no room after the prompt.
int64_t context_for(const Options&, const ModelDescription&, const Continuation&);

}  // namespace tern
