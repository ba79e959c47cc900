#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "formats/tokenizer/tokenizer.h"
#include "infer/chat_prompt.h"
#include "infer/constrain/constraint.h"
#include "serve/api_error.h"
#include "serve/fields.h"

namespace tern {

void take_tool_marks(ServedModel& model) {
  model.tool_marks.clear();
  model.tool_texts = model.texts;
  if (!model.chat || !model.chat->tool_syntax()) return;
  const int64_t ids = std::min(model.vocab, model.tokenizer->vocab_size());
  for (int64_t id = 0; id < ids; ++id)
    if (model.tokenizer->is_special(id))
      for (const std::string& mark : ToolSyntax::marks())
        if (model.tokenizer->piece(id) == mark) model.tool_marks.emplace_back(static_cast<int32_t>(id), mark);
  if (model.texts && !model.tool_marks.empty())
    model.tool_texts = std::make_shared<const TokenTexts>(token_texts(*model.tokenizer, model.vocab, model.tool_marks));
}

int adapter_called(const ServedModel& model, const std::string& name) {
  if (name == model.name) return kNoAdapter;
  const auto at = std::ranges::find(model.adapters, name);
  if (at != model.adapters.end()) return static_cast<int>(at - model.adapters.begin());
  std::string there = quote_json(model.name);
  for (const std::string& adapter : model.adapters) there += ", " + quote_json(adapter);
  throw ApiError(404, fmt::format("model: there is no {}; this server has {}", describe_json(name), there), "model",
                 "model_not_found");
}

}  // namespace tern
