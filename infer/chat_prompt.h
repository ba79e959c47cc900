#pragma once
// Messages as the tokens a model wants to read, by its template.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/chat/template.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

class ChatPrompt {
 public:
  /// `file`: a template to use in place of the model's own; may be empty.
  /// Errors  usage: the model has no template: what to do; JinjaError; bad_file.
  ChatPrompt(const std::string& model_path, const std::string& file, Tokenizer);
  /// Ends where the assistant's answer begins. Errors: JinjaError, with what the template says of the messages.
  /// `variables`: an object of what the template reads beside them; may be null.
  std::vector<int32_t> tokens(const Json& messages, const Json* variables = nullptr) const;
  /// Special tokens that the template puts right behind an answer: they end one, whatever the configuration says.
  std::vector<int32_t> turn_ends() const;
  const std::string& place() const { return place_; }

 private:
  Tokenizer tokenizer_;
  std::string place_;
  std::vector<int32_t> control_;
  ChatTemplate template_;
};

}  // namespace tern
