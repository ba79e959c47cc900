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

CalledModel model_called(std::span<const ServedModel* const> models, const std::string& name) {
  std::string there;
  for (size_t i = 0; i < models.size(); ++i) {
    const ServedModel& model = *models[i];
    if (name == model.name) return {i, kNoAdapter};
    there += (there.empty() ? "" : ", ") + quote_json(model.name);
    for (size_t k = 0; k < model.adapters.size(); ++k) {
      if (name == model.adapters[k]) return {i, static_cast<int>(k)};
      there += ", " + quote_json(model.adapters[k]);
    }
  }
  throw ApiError(404, fmt::format("model: there is no {}; this server has {}", describe_json(name), there), "model",
                 "model_not_found");
}

size_t model_asked(std::span<const ServedModel* const> models, const Json& body) {
  if (!body.is_object()) return 0;
  const auto name = body.find("model");
  return name != body.end() && name->is_string() ? model_called(models, name->get<std::string>()).model : 0;
}

int adapter_called(const ServedModel& model, const std::string& name) {
  const ServedModel* const only = &model;
  return model_called({&only, 1}, name).adapter;
}

}  // namespace tern
