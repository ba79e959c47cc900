// How calls are spelled is read off the template: by small ones of each family, and by published ones.
#include "formats/chat/tool_syntax.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "base/io.h"
#include "formats/chat/template.h"
#include "formats/chat/tool_templates_testing.h"

namespace tern {
namespace {

std::optional<ToolSyntax> syntax_of(const std::string& text, std::string& why) {
  return tool_syntax(ChatTemplate(text, "the test", {{"bos_token", "<s>"}, {"eos_token", "</s>"}}), why);
}

TEST(ToolSyntax, IsReadOffTheTemplate) {
  std::string why;
  const std::array<std::array<std::string, 4>, 4> want = {{
      {"<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
       "}\n</tool_call>"},
      {"{\"name\": \"", "\", \"parameters\": ", "", "}"},
      {"[TOOL_CALLS] [{\"name\": \"", "\", \"arguments\": ", "}, {\"name\": \"", "}]"},
      {"[TOOL_CALLS]", "[ARGS]", "[TOOL_CALLS]", ""},
  }};
  for (size_t i = 0; i < 4; ++i) {
    const auto syntax = syntax_of(kToolTemplates[i]->text, why);
    ASSERT_TRUE(syntax) << i << ": " << why;
    EXPECT_EQ(syntax->form, kToolTemplates[i]->form);
    EXPECT_EQ((std::array<std::string, 4>{syntax->first, syntax->middle, syntax->next, syntax->last}), want[i]);
    EXPECT_TRUE(syntax->first.starts_with(syntax->mark()));
  }
}

TEST(ToolSyntax, WhatIsNotThereIsSaid) {
  std::string why;
  EXPECT_FALSE(syntax_of("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:", why));
  EXPECT_NE(why.find("has no place for tools"), std::string::npos) << why;
  std::string other = kHermesTemplate.text;
  for (size_t at; (at = other.find("{\"name\": \"")) != std::string::npos;) other.replace(at, 10, "<function=");
  EXPECT_FALSE(syntax_of(other, why));
  EXPECT_NE(why.find("<function="), std::string::npos) << why;
  EXPECT_FALSE(
      syntax_of("{{ tools | tojson }}{% if messages | length > 1 %}{{ raise_exception('no roles') }}{% endif %}", why));
  EXPECT_NE(why.find("no roles"), std::string::npos) << why;
}

TEST(ToolSyntax, OfPublishedTemplates) {
  const char* data = std::getenv("TERN_DATA");
  if (!data) GTEST_SKIP() << "TERN_DATA is not set";
  const std::pair<const char*, std::optional<ToolForm>> known[] = {
      {"Qwen-Qwen2.5-7B-Instruct", ToolForm::tagged},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", ToolForm::tagged},
      {"Bielik-11B-v3.0-Instruct", ToolForm::tagged},
      {"meta-llama-Llama-3.1-8B-Instruct", ToolForm::bare},
      {"meta-llama-Llama-3.3-70B-Instruct", ToolForm::bare},
      {"unsloth-mistral-Devstral-Small-2507", ToolForm::named},
      {"mistralai-Ministral-3-14B-Reasoning-2512", ToolForm::named},
      {"Qwen3-Coder", std::nullopt},
      {"GLM-4.7-Flash", std::nullopt},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", std::nullopt},
      {"google-gemma-2-2b-it", std::nullopt}};
  for (const auto& [name, form] : known) {
    std::string why;
    const auto syntax = syntax_of(real_io().read(std::string(data) + "/chat_templates/" + name + ".jinja"), why);
    EXPECT_EQ(syntax ? std::optional(syntax->form) : std::nullopt, form) << name << ": " << why;
  }
}

}  // namespace
}  // namespace tern
