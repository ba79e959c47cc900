#pragma once
// How a model's rows become one vector per text: what sentence-transformers writes beside the model.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// How one vector is made of a text's rows.
enum class Pooling : uint8_t {
  mean,           // of all tokens
  cls,            // the first token
  last,           // the last token
  max,            // the largest of each column
  mean_sqrt,      // the sum divided by √(number of tokens)
  weighted_mean,  // token i counts i + 1 times
  pooler,         // BERT's: tanh of a matrix and the first token
};
/// "mean", "cls", "last", "max", "mean-sqrt", "weighted-mean", "pooler".
std::string_view name_of(Pooling);
std::optional<Pooling> pooling_named(std::string_view);

/// How a text becomes a vector.
struct SentenceConfig {
  Pooling pooling = Pooling::mean;
  bool normalize = false;             // to length 1
  std::optional<int64_t> max_tokens;  // of a text, what the tokenizer adds included; longer ones were cut
  std::string prefix;                 // put in front of every text
  bool include_prompt = true;         // false: the rows of a prefix are no part of the vector
  std::vector<std::string> notes;     // for a person: prompts that the model has by name
};

/// Reads modules.json and what it names, sentence_bert_config.json (or under its older names),
/// config_sentence_transformers.json, and model_max_length of tokenizer_config.json. nullopt: the directory has neither
/// modules.json nor 1_Pooling/config.json.
/// Errors  bad_file "PATH: KEY: …": modules that tern does not have (Dense and the like), two poolings at once, texts
///         made lower case outside the tokenizer, keys that tern does not
///         know, values of the wrong type, a path out of the directory.
/// Source  the files that sentence-transformers 2 to 6.2 writes.
std::optional<SentenceConfig> read_sentence_config(const std::string& directory);
/// The same, of files that `read` gives by their names in the directory; it returns nullopt for one that is not there.
using ReadFile = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<SentenceConfig> parse_sentence_config(const std::string& directory, const ReadFile& read);

}  // namespace tern
