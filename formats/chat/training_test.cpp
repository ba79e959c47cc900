#include "formats/chat/training.h"

#include <filesystem>

#include "base/json.h"
#include "formats/format_test_support.h"
#include "formats/mutations_testing.h"

namespace tern {
namespace {

// Special tokens and a vocabulary of bytes: every border is visible.
Tokenizer byte_tokenizer() {
  std::string vocab, added;
  for (int b = 0; b < 256; ++b) vocab += fmt::format("{}\"<0x{:02X}>\": {}", b ? ", " : "", b, b);
  const char* specials[] = {"<|im_start|>", "<|im_end|>", "<s>", "</s>"};
  for (int i = 0; i < 4; ++i)
    added += fmt::format(
        "{}{{\"id\": {}, \"content\": \"{}\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true}}",
        i ? ", " : "", 256 + i, specials[i]);
  return Tokenizer::from_json(
      "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [" + added +
          "], \"normalizer\": null, \"pre_tokenizer\": null, \"post_processor\": null, \"decoder\": {\"type\": "
          "\"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}, \"model\": {\"type\": "
          "\"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null, "
          "\"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": true, \"ignore_merges\": false, "
          "\"vocab\": {" +
          vocab + "}, \"merges\": []}}",
      "");
}

constexpr const char* kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr const char* kMarked =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content "
    "}}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}";
constexpr const char* kTalk =
    R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "u<|im_end|>1"},)"
    R"( {"role": "assistant", "content": "A one"}, {"role": "user", "content": "u2"}, {"role": "assistant", "content": "B"}]})";

ChatTraining training(const std::string& text) {
  ChatTemplates all;
  all.by_name["default"] = {text, "t.jinja"};
  return ChatTraining(all, byte_tokenizer(), fixed_time());
}

// The text of the tokens that are learned, runs parted by '|'.
std::string learned(const TrainingChat& chat) {
  const Tokenizer t = byte_tokenizer();
  std::string out;
  for (size_t i = 0; i < chat.ids.size(); ++i) {
    if (!chat.loss[i]) continue;
    if (i > 0 && !chat.loss[i - 1]) out += '|';
    out += t.decode(std::span(chat.ids).subspan(i, 1));
  }
  return out;
}

TEST(ChatTraining, TheAssistantsWordsAreLearnedWithTheirEndAndNothingElse) {
  for (const char* text : {kChatMl, kMarked}) {
    const TrainingChat chat = training(text).encode(kTalk, "f: line 1");
    EXPECT_EQ(learned(chat), "|A one<|im_end|>|B<|im_end|>");
    // What the user typed is no control token.
    EXPECT_EQ(std::count(chat.ids.begin(), chat.ids.end(), 257), 5);
  }
}

TEST(ChatTraining, AnInvitationThatIsNoPartOfTheHistoryEndsWhereTheTwoPart) {
  const std::string thinking =
      std::string(kChatMl).replace(std::string(kChatMl).rfind("assistant\n") + 10, 0, "<think>\n");
  EXPECT_EQ(learned(training(thinking).encode(kTalk, "f")), "|A one<|im_end|>|B<|im_end|>");
}

TEST(ChatTraining, ToolsReachTheTemplate) {
  const std::string with = std::string("{% if tools %}{{ tools | length }} tools {% endif %}") + kChatMl;
  const TrainingChat chat = training(with).encode(
      R"({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}], "tools": [{"type": "function"}]})",
      "f");
  EXPECT_TRUE(byte_tokenizer().decode(chat.ids).starts_with("1 tools "));
}

TEST(ChatTraining, RolesAndPartsThatATemplateReadsAreTaken) {
  const ChatTraining t = training(
      "{% for m in messages %}{% if m.role == 'judge' %}J{% endif %}{% if m.content is string %}{{ m.content }}{% else "
      "%}{% for p in m.content %}{{ p['text'] }}{% endfor %}{% endif %};{% endfor %}");
  const TrainingChat chat = t.encode(
      R"({"messages": [{"role": "judge", "content": [{"type": "text", "text": "u"}]}, {"role": "assistant", "content": "a"}]})",
      "f");
  EXPECT_EQ(byte_tokenizer().decode(chat.ids), "Ju;a;");
}

TEST(ChatTrainingMalformed, EveryMistakeIsNamed) {
  const ChatTraining t = training(kChatMl);
  const std::pair<const char*, const char*> cases[] = {
      {"{", "f: line 3"},
      {"[]", "array, expected an object"},
      {R"({"tools": []})", "'messages' is missing"},
      {R"({"mesages": []})", "unknown key 'mesages'; did you mean 'messages'?"},
      {R"({"messages": {}})", "messages: object, expected a list"},
      {R"({"messages": []})", "no message by the assistant"},
      {R"({"messages": [1]})", "message 1: number, expected an object"},
      {R"({"messages": [{"content": "x"}]})", "message 1: has no text 'role'"},
      {R"({"messages": [{"role": "user", "content": "x"}, {"role": "assitant", "content": "y"}]})",
       "message 2: role 'assitant', expected system, developer, user, assistant, tool, function or one that the "
       "template names; did you mean 'assistant'?"},
      {R"({"messages": [{"role": "usr", "content": "x"}, {"role": "assistant", "content": "y"}]})", "role 'usr'"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}, {"role": "assistant", "content": "y"}]})",
       "message 1: content is a list of parts, which this template would write as it stands; give one text"},
      {R"({"messages": [{"role": "user"}]})", "message 1: has neither 'content'"},
      {R"({"messages": [{"role": "user", "content": "x", "weight": 0}]})", "message 1: unknown key 'weight'"},
      {R"({"messages": [{"role": "user", "content": "x"}]})", "no message by the assistant"},
      {R"({"messages": [{"role": "assistant", "content": "x"}], "tools": 5})", "tools: number, expected a list"},
  };
  for (const auto& [json, what] : cases)
    EXPECT_TRUE(throws(ErrorKind::bad_file, what, [&] { t.encode(json, "f: line 3"); })) << json;
  // A template that drops what it wrote.
  const ChatTraining drops = training(
      "{% for m in messages %}{% if m.role == 'assistant' and not loop.last %}gone{% else %}{{ m.content }}{% endif "
      "%};{% endfor %}");
  EXPECT_TRUE(throws(ErrorKind::bad_file, "message 3: the template writes this answer otherwise",
                     [&] { drops.encode(kTalk, "f"); }));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "alternate",
                     [&] { training("{{ raise_exception('roles must alternate') }}").encode(kTalk, "f"); }));
}

TEST(ChatTrainingMutationsSlow, EveryMutationIsMarkedOrRefused) {
  const ChatTraining t = training(kChatMl);
  survive_mutations({kTalk},
                    [&](const std::string& line) {
                      const TrainingChat chat = t.encode(line, "mutated");
                      if (chat.ids.size() != chat.loss.size()) throw std::logic_error("a mark for each token");
                    },
                    {.least_fine = 80, .least_refused = 3000});
}

// Every real template that takes a plain conversation: the answers are learned, the questions are not.
TEST(ChatTraining, RealTemplatesMarkTheAnswers) {
  const char* data = std::getenv("TERN_DATA");
  if (!data) GTEST_SKIP() << "TERN_DATA is not set";
  int marked = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(data) + "/chat_templates")) {
    ChatTemplates all;
    all.by_name["default"] = {read_bytes(entry.path()), entry.path().filename()};
    all.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    SCOPED_TRACE(entry.path().filename().string());
    try {
      const std::string text = learned(ChatTraining(all, byte_tokenizer(), fixed_time())
                                           .encode(R"({"messages": [{"role": "user", "content": "QQ1"}, {"role": )"
                                                   R"("assistant", "content": "AA1"}, {"role": "user", "content": )"
                                                   R"("QQ2"}, {"role": "assistant", "content": "AA2"}]})",
                                                   "f"));
      EXPECT_NE(text.find("AA1"), std::string::npos) << text;
      EXPECT_NE(text.find("AA2"), std::string::npos) << text;
      EXPECT_EQ(text.find("QQ"), std::string::npos) << text;
      ++marked;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_file) << error.what();
      std::printf("%s: %s\n", entry.path().filename().c_str(), error.what());
      ++refused;
    }
  }
  EXPECT_GE(marked, 18);
  std::printf("%d templates mark the answers, %d refuse\n", marked, refused);
}

}  // namespace
}  // namespace tern
