#pragma once
// Rendered conversations as token ids. What a user typed never becomes a control token.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/chat/template.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

/// Ids of the added tokens that are not special, are not white space alone, and stand in the template's source:
/// "<think>", "<tool_call>". They steer the model as special ones do, so they too are plain text where a user wrote
/// them. Source: transformers 5.23, sanitize_control_tokens.
std::vector<int32_t> chat_control_tokens(const Tokenizer&, std::string_view template_source);

/// Ids of the conversation. Nothing is added around them, since the template has written all that belongs there. A
/// special token, or one of `control_tokens`, that lies wholly in a span of `chat.user` is encoded as plain text and
/// does not part the text around it.
/// Errors  usage: chat.text is not UTF-8.
std::vector<int32_t> encode_chat(const Tokenizer&, const RenderedChat& chat, std::span<const int32_t> control_tokens);

}  // namespace tern
