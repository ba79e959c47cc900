// Bytes up to the first NUL as a chat template, the rest as the conversation (or a fixed one, if it is no list of
// objects): a JinjaError, or a text whose spans lie in order within it, and the same text again.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "formats/chat/template.h"

namespace {

bool in_order(const std::vector<tern::TextSpan>& spans, size_t size) {
  size_t at = 0;
  for (const tern::TextSpan& s : spans) {
    if (s.begin < at || s.begin >= s.end || s.end > size) return false;
    at = s.end + 1;  // neighbours are one span
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  static const Json fixed = Json::parse(
      R"([{"role":"system","content":"S"},{"role":"user","content":"a <|x|> b"},{"role":"assistant","content":null,)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"k":[1,2.5,true,null,"é"]}}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"r"},{"role":"user","content":[{"type":"text","text":"t"}]}])");
  static const Json tools = Json::parse(
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":)"
      R"({"k":{"type":"array","items":{"type":"string"}}},"required":["k"]}}}])");
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view source = all.substr(0, all.find('\0'));
  Json given;
  ChatRequest request;
  request.messages = &fixed;
  request.tools = &tools;
  request.add_generation_prompt = true;
  request.now.emplace();
  request.limits = JinjaLimits{.max_steps = 20'000, .max_work = 1 << 24};
  if (source.size() < all.size()) try {
      given = parse_json(all.substr(source.size() + 1), "fuzz");
      bool objects = given.is_array();
      for (const Json& m : given) objects = objects && m.is_object();
      if (objects) request.messages = &given;
    } catch (const Error&) {}
  try {
    const ChatTemplate t(source, "fuzz", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    const RenderedChat chat = t.render(request);
    if (!is_valid_utf8(chat.text) || !in_order(chat.user, chat.text.size()) ||
        !in_order(chat.assistant, chat.text.size()))
      std::abort();
    if (t.render(request).text != chat.text) std::abort();
  } catch (const JinjaError& error) {
    if (std::string_view(error.what()).size() > 4000 || !is_valid_utf8(error.what())) std::abort();
  }
  return 0;
}
