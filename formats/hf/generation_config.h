#pragma once
// generation_config.json: how the model's makers want it sampled. Every value is a default that a flag may override.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// Absent means: the file says nothing, the command's own default holds.
struct GenerationConfig {
  std::optional<bool> do_sample;  // false: greedy, whatever the numbers below say
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;  // 0: no limit
  std::optional<int64_t> max_new_tokens;
  std::optional<int64_t> max_length;  // prompt included
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_ids;     // empty: config.json's hold
  std::vector<std::string> stop_strings;  // may be empty

  std::vector<std::string> notes;  // settings seen and not followed because they change nothing here, one sentence each
};

/// Settings that would change what is sampled and that tern does not have (beam search, contrastive search, …) are
/// errors when set to anything but their neutral value; unknown keys are errors naming the nearest known one.
/// Errors  bad_file: "PLACE: KEY: fact, expectation; remedy".
GenerationConfig read_generation_config(const std::string& path);
GenerationConfig parse_generation_config(std::string_view json, std::string_view place);

/// The file as text; only what is set is written. Errors: usage, if a value is out of its range.
std::string generation_config_json(const GenerationConfig&);

}  // namespace tern
