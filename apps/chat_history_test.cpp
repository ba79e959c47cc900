#include "apps/chat_history.h"

#include "apps/chat_input.h"

#include "base/error.h"
#include "formats/format_test_support.h"

namespace tern {
namespace {

TEST(ChatHistory, UndoTakesBackAWholeTurnAndRetryOnlyTheAnswer) {
  ChatHistory h;
  EXPECT_FALSE(h.undo());
  EXPECT_FALSE(h.forget_answer());
  h.ask("a"), h.answer("b"), h.ask("c");
  EXPECT_TRUE(h.waits_for_answer());
  EXPECT_FALSE(h.forget_answer());
  h.answer("d");
  EXPECT_TRUE(h.forget_answer());
  EXPECT_TRUE(h.waits_for_answer());
  EXPECT_TRUE(h.undo());
  EXPECT_EQ(h.turns(), (std::vector<ChatMessage>{{"user", "a"}, {"assistant", "b"}}));
  EXPECT_TRUE(h.undo());
  EXPECT_TRUE(h.turns().empty());
}

TEST(ChatHistory, WhatIsSavedIsLoaded) {
  ChatHistory h;
  h.system = "be \"brief\"\n";
  h.ask("größer?"), h.answer("yes"), h.ask("why?");
  const ChatHistory again = ChatHistory::from_json(h.to_json(), "f");
  EXPECT_EQ(again.system, h.system);
  EXPECT_EQ(again.turns(), h.turns());
}

TEST(ChatHistory, WhatIsNoConversationIsRefused) {
  const auto refused = [](const char* text, const char* what) {
    return throws(ErrorKind::bad_file, what, [&] { ChatHistory::from_json(text, "f.json"); });
  };
  EXPECT_TRUE(refused("x", "f.json"));
  EXPECT_TRUE(refused("[]", "expected one object"));
  EXPECT_TRUE(refused(R"({"messages": 3})", "expected one object"));
  EXPECT_TRUE(refused(R"({"messages": [3]})", "message 1: expected the texts"));
  EXPECT_TRUE(refused(R"({"messages": [{"role": "user", "content": null}]})", "message 1: expected the texts"));
  EXPECT_TRUE(refused(R"({"messages": [{"role": "assistant", "content": "x"}]})", "role 'assistant', expected 'user'"));
  EXPECT_TRUE(refused(R"({"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "x"}]})",
                      "message 2: role 'user', expected 'assistant'"));
}

TEST(ChatInput, LinesBecomeMessages) {
  ChatInput in;
  EXPECT_EQ(in.push("hello\r"), "hello");
  EXPECT_EQ(in.push("   "), std::nullopt);
  EXPECT_EQ(in.push("one\\"), std::nullopt);
  EXPECT_TRUE(in.open());
  EXPECT_EQ(in.push("two"), "one\ntwo");
  EXPECT_EQ(in.push("\"\"\"first"), std::nullopt);
  EXPECT_EQ(in.push(""), std::nullopt);
  EXPECT_EQ(in.push("/help\\"), std::nullopt);
  EXPECT_EQ(in.push("last\"\"\""), "first\n\n/help\\\nlast");
  EXPECT_EQ(in.push("\"\"\"one line\"\"\""), "one line");
  EXPECT_EQ(in.push("\"\"\""), std::nullopt);
  EXPECT_EQ(in.push("begun"), std::nullopt);
  EXPECT_EQ(in.finish(), "begun");
  EXPECT_EQ(in.finish(), std::nullopt);
}

TEST(ChatCommand, SlashesAreCommandsUnlessDoubled) {
  std::string text = "/Params  temperature 0.5 ";
  const auto c = chat_command(text);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->name, "params");
  EXPECT_EQ(c->argument, "temperature 0.5");
  text = "//etc/passwd";
  EXPECT_FALSE(chat_command(text));
  EXPECT_EQ(text, "/etc/passwd");
  text = "no /command";
  EXPECT_FALSE(chat_command(text));
}

}  // namespace
}  // namespace tern
