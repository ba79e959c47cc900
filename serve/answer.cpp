#include "serve/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "infer/best_sample.h"
#include "infer/chat_prompt.h"

namespace tern {
namespace {

const char* finish_reason(FinishReason reason) {
  switch (reason) {
    case FinishReason::eos:
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
    case FinishReason::context:
      return "length";
    default:
      return "cancelled";
  }
}

// JSON has no infinity; this is the number that OpenAI gives what is next to impossible.
double finite(double log_probability) { return std::max(log_probability, -9999.0); }

// One more of an array's elements.
void append(std::string& elements, const Json& one) {
  if (!elements.empty()) elements += ',';
  elements += dump_json(one);
}

// `value` in the place of a placeholder. In no text of a client's can a key be found: its quotes are escaped.
std::string with(std::string json, std::string_view key, std::string_view placeholder, const std::string& value) {
  const size_t at = json.find(std::string(key) + std::string(placeholder));
  TERN_CHECK(at != std::string::npos, "answer: no place for {}", key);
  return json.replace(at + key.size(), placeholder.size(), value);
}

Json token_json(const Tokenizer& tokenizer, int32_t id, double log_probability) {
  const std::string text = token_text(tokenizer, id);
  Json json = {{"token", text}, {"logprob", finite(log_probability)}, {"bytes", nullptr}};
  if (text.find("\xEF\xBF\xBD") == std::string::npos) {  // a part of a character has no text of its own
    json["bytes"] = Json::array();
    for (const char c : text) json["bytes"].push_back(static_cast<unsigned char>(c));
  }
  return json;
}

}  // namespace

int64_t answer_bytes(const Asked& asked) {
  if (asked.stream) return 0;
  constexpr int64_t kText = 24, kId = 16;   // of a token: in the answer and in what is written of it
  constexpr int64_t kProbability = 3 * 96;  // of a log-probability as JSON, while it is put together
  int64_t bytes = 0;
  for (const Request& r : asked.prompts) {
    int64_t each = kText + (asked.token_ids ? kId : 0);
    if (asked.log_probabilities)
      each += static_cast<int64_t>(sizeof(DrawnToken)) + 16 * r.num_likeliest + (1 + r.num_likeliest) * kProbability;
    bytes += r.num_samples * r.max_tokens * each;
  }
  return bytes;
}

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  const std::string alone = tokenizer.decode({&id, 1});
  const int32_t twice[] = {id, id};
  const std::string both = tokenizer.decode(twice);
  return both.starts_with(alone) ? both.substr(alone.size()) : alone;
}

Answer::Answer(Asked asked, const ServedModel& model, std::string id, int64_t created_s)
    : asked_(std::move(asked)),
      model_(model),
      id_(std::move(id)),
      created_s_(created_s),
      choices_(static_cast<size_t>(asked_.num_samples())),
      open_(choices_.size()) {
  if (asked_.stream) {
    piece_begin_ = "data: " + dump_json(frame(true));
    TERN_CHECK(piece_begin_.ends_with("[]}"), "answer: a frame ends with {}", piece_begin_);
    piece_begin_.resize(piece_begin_.size() - 2);
  }
  if (!asked_.tools.empty())
    for (Choice& c : choices_) c.tools.emplace(*model.chat->tool_syntax(), asked_.tools);
  for (size_t i = 0; i < asked_.prompts.size(); ++i) {
    prompt_tokens_ += static_cast<int64_t>(asked_.prompts[i].prompt.size());
    const auto n = static_cast<size_t>(asked_.prompts[i].num_samples);
    if (asked_.echo.empty()) continue;
    for (size_t k = i * n; k < (i + 1) * n; ++k) {
      choices_[k].text = asked_.echo[i];
      choices_[k].offset = static_cast<int64_t>(count_utf8(asked_.echo[i]));
    }
  }
}

// Written token by token, so that no JSON value of the whole stands beside the text.
std::string Answer::log_probabilities(const Choice& c) const {
  const Tokenizer& tokenizer = *model_.tokenizer;
  if (asked_.chat) {
    std::string content;
    for (const DrawnToken& drawn : c.drawn) {
      Json one = token_json(tokenizer, drawn.id, drawn.log_probability);
      Json& top = one["top_logprobs"] = Json::array();
      for (const auto& [id, value] : drawn.likeliest) top.push_back(token_json(tokenizer, id, value));
      append(content, one);
    }
    return "{\"content\":[" + content + "],\"refusal\":null}";
  }
  std::string tokens, values, tops, offsets;
  int64_t offset = c.offset;
  for (const DrawnToken& drawn : c.drawn) {
    const std::string text = token_text(tokenizer, drawn.id);
    append(tokens, text);
    append(values, finite(drawn.log_probability));
    append(offsets, offset);
    offset += static_cast<int64_t>(count_utf8(text));
    Json best;
    for (const auto& [id, value] : drawn.likeliest)
      if (const std::string key = token_text(tokenizer, id); !best.contains(key)) best[key] = finite(value);
    if (!best.is_null() && !best.contains(text)) best[text] = finite(drawn.log_probability);
    append(tops, best);
  }
  return fmt::format("{{\"tokens\":[{}],\"token_logprobs\":[{}],\"top_logprobs\":[{}],\"text_offset\":[{}]}}", tokens,
                     values, tops, offsets);
}

std::string Answer::with_log_probabilities(std::string json, const Choice& c) const {
  return asked_.log_probabilities ? with(std::move(json), "\"logprobs\":", "null", log_probabilities(c)) : json;
}

Json Answer::frame(bool piece) const {
  const char* object = !asked_.chat ? "text_completion" : piece ? "chat.completion.chunk" : "chat.completion";
  return {{"id", id_},
          {"object", object},
          {"created", created_s_},
          {"model", model_.name_of(asked_.prompts.front().adapter)},
          {"choices", Json::array()}};
}

Json Answer::usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", completion_tokens_},
          {"total_tokens", prompt_tokens_ + completion_tokens_},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}}};
}

// A call's id, from the answer's own.
std::string Answer::call_id(size_t index, int64_t call) const {
  const uint64_t hash = hash_name(fmt::format("{} {} {}", id_, index, call));
  if (!model_.chat->tool_syntax()->has_short_ids()) return fmt::format("call_{:016x}", hash);
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string id;
  for (uint64_t rest = hash; id.size() < 9; rest /= kLetters.size()) id += kLetters[rest % kLetters.size()];
  return id;
}

void Answer::take_text(size_t index, const std::string& text, bool ends) {
  Choice& c = choices_[index];
  if (!c.tools) {
    c.text += text;
    return;
  }
  std::vector<ToolPiece> pieces = c.tools->push(text);
  if (ends)
    for (ToolPiece& piece : c.tools->finish()) pieces.push_back(std::move(piece));
  for (ToolPiece& piece : pieces) {
    if (piece.kind == ToolPiece::Kind::content)
      c.text += piece.text;
    else if (piece.kind == ToolPiece::Kind::name)
      c.calls.push_back({piece.call, call_id(index, piece.call), piece.text, ""});
    else if (!c.calls.empty() && c.calls.back().index == piece.call)
      c.calls.back().arguments += piece.text;
    else
      c.calls.push_back({piece.call, "", "", piece.text});
  }
  c.num_calls = c.tools->num_calls();
}

namespace {

Json call_json(const std::string& id, const std::string& name, const std::string& arguments) {
  Json json = Json::object();
  if (!id.empty()) json["id"] = id, json["type"] = "function";
  json["function"] = Json::object();
  if (!name.empty()) json["function"]["name"] = name;
  json["function"]["arguments"] = arguments;
  return json;
}

}  // namespace

Json Answer::choice_json(size_t index, const Choice& c, bool piece, bool first) const {
  Json choice = {{"index", index}};
  if (!asked_.chat) {
    choice["text"] = c.text;
  } else if (piece) {
    choice["delta"] = Json::object();
    if (first) choice["delta"]["role"] = "assistant";
    if (first || !c.text.empty()) choice["delta"]["content"] = c.text;
    if (first && c.tools && c.text.empty()) choice["delta"]["content"] = nullptr;
    for (const Call& call : c.calls) {
      choice["delta"]["tool_calls"].push_back({{"index", call.index}});
      choice["delta"]["tool_calls"].back().update(call_json(call.id, call.name, call.arguments));
    }
  } else {
    choice["message"] = {{"role", "assistant"}, {"content", c.text}, {"refusal", nullptr}};
    if (c.num_calls > 0 && c.text.empty()) choice["message"]["content"] = nullptr;
    for (const Call& call : c.calls)
      choice["message"]["tool_calls"].push_back(call_json(call.id, call.name, call.arguments));
  }
  choice["logprobs"] = nullptr;  // with_log_probabilities puts them there
  choice["finish_reason"] = c.reason.empty() ? Json(nullptr) : Json(c.reason);
  if (asked_.token_ids) choice["token_ids"] = c.ids;
  return choice;
}

std::string Answer::take(size_t prompt, const Event& event) {
  const size_t index =
      prompt * static_cast<size_t>(asked_.prompts[prompt].num_samples) + static_cast<size_t>(event.sample);
  Choice& c = choices_[index];
  take_text(index, event.text, event.finished.has_value());
  const bool ends = event.finished && event.finished->reason == FinishReason::eos;
  if (event.drawn && !ends) {
    ++completion_tokens_;
    if (asked_.log_probabilities) c.drawn.push_back(*event.drawn);
    if (asked_.token_ids) c.ids.push_back(event.drawn->id);
  }
  if (event.finished) {
    c.reason = finish_reason(event.finished->reason);
    if (c.num_calls > 0 && c.reason == "stop") c.reason = "tool_calls";
    c.mean_log_probability = mean_log_probability(*event.finished);
    --open_;
    if (event.sample == 0) cached_tokens_ += event.finished->reused_tokens;
  }
  if (!asked_.stream) return "";
  const bool tells = !c.text.empty() || !c.calls.empty() || !c.ids.empty() || !c.drawn.empty() || !c.reason.empty();
  if (c.begun && !tells) return "";
  std::string piece = piece_begin_ + with_log_probabilities(dump_json(choice_json(index, c, true, !c.begun)), c) + ']';
  if (asked_.usage) piece += ",\"usage\":" + (asked_.usage_in_each ? dump_json(usage()) : "null");
  piece += "}\n\n";
  c.begun = true;
  for (const DrawnToken& drawn : c.drawn)
    c.offset += static_cast<int64_t>(count_utf8(token_text(*model_.tokenizer, drawn.id)));
  c.text.clear(), c.ids.clear(), c.drawn.clear(), c.calls.clear();
  return piece;
}

std::string Answer::stream_end() const {
  std::string end;
  if (asked_.usage) {
    Json piece = frame(true);
    piece["usage"] = usage();
    end = "data: " + dump_json(piece) + "\n\n";
  }
  return end + "data: [DONE]\n\n";
}

// All, or the best of each prompt, the best first; the earlier among equals.
std::vector<const Answer::Choice*> Answer::kept() const {
  std::vector<const Choice*> all;
  for (const Choice& c : choices_) all.push_back(&c);
  if (asked_.kept == 0) return all;
  std::vector<const Choice*> best;
  const auto samples = asked_.prompts.front().num_samples;
  for (auto from = all.begin(); from != all.end(); from += samples) {
    std::stable_sort(from, from + samples, [](const Choice* a, const Choice* b) {
      return a->mean_log_probability > b->mean_log_probability;
    });
    best.insert(best.end(), from, from + asked_.kept);
  }
  return best;
}

std::string Answer::whole() const {
  std::string choices;
  const std::vector<const Choice*> told = kept();
  for (size_t i = 0; i < told.size(); ++i)
    choices += (i > 0 ? "," : "") + with_log_probabilities(dump_json(choice_json(i, *told[i], false, true)), *told[i]);
  Json json = frame(false);
  json["usage"] = usage();
  return with(dump_json(json), "\"choices\":", "[]", "[" + choices + "]");
}

}  // namespace tern
