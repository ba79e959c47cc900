#include "formats/chat/encode.h"

#include "formats/jinja/text.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

std::vector<int32_t> chat_control_tokens(const Tokenizer& tokenizer, std::string_view template_source) {
  std::vector<int32_t> ids;
  for (const AddedToken& token : tokenizer.data().added) {
    const bool blank = jinja::leading_space(token.content) == token.content.size();
    if (!token.special && !blank && template_source.find(token.content) != std::string_view::npos)
      ids.push_back(token.id);
  }
  return ids;
}

std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const RenderedChat& chat,
                                 std::span<const int32_t> control_tokens) {
  return tokenizer.encode(chat.text, {.add_special = false, .plain = chat.user, .plain_tokens = control_tokens});
}

}  // namespace tern
