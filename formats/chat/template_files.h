#pragma once
// The chat templates that a model directory brings.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tern {

/// The templates of a model directory.
struct ChatTemplates {
  struct Source {
    std::string text;
    std::string place;  // the file, for messages
  };
  std::map<std::string, Source> by_name;              // "default", "tool_use", …
  std::map<std::string, std::string> special_tokens;  // bos_token, eos_token, …: variables of the templates
  std::vector<std::string> notes;                     // what was seen and not followed

  bool empty() const { return by_name.empty(); }
};

/// Reads chat_template.jinja ("default") and additional_chat_templates/NAME.jinja; only if there is neither,
/// `chat_template` of tokenizer_config.json: a text ("default") or a list of {name, template}. Special tokens come from
/// tokenizer_config.json, and those that it lacks from special_tokens_map.json. `directory` may also be a GGUF file:
/// then its keys tokenizer.chat_template and tokenizer.chat_template.NAME are read, and its special tokens.
/// Errors  bad_file: a file that is no UTF-8, a template over 1 MiB, a chat_template of another form. No template at
///         all is no error here.
/// Source  transformers 5.23.
ChatTemplates read_chat_templates(const std::filesystem::path& directory);
/// The template in `file` becomes the only one, "default"; an empty `file` changes nothing. Errors: bad_file.
void replace_chat_templates(ChatTemplates&, const std::string& file);

}  // namespace tern
