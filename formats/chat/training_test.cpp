#include "formats/chat/training.h"

#include <filesystem>

#include "base/json.h"
#include "formats/chat/template_files.h"
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

ChatTraining training(const std::string& text, Answers answers = Answers::all) {
  ChatTemplates all;
  all.by_name["default"] = {text, "t.jinja"};
  return ChatTraining(all, byte_tokenizer(), answers, fixed_time());
}
std::vector<TrainingChat> samples(const ChatTraining& t, std::string_view json, const std::string& place) {
  std::vector<TrainingChat> all;
  t.encode(json, place, [&](const TrainingChat& chat) { all.push_back(chat); });
  return all;
}
TrainingChat one_sample(const ChatTraining& t, std::string_view json, const std::string& place) {
  return samples(t, json, place).at(0);
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
    const TrainingChat chat = one_sample(training(text), kTalk, "f: line 1");
    EXPECT_EQ(learned(chat), "|A one<|im_end|>|B<|im_end|>");
    // What the user typed is no control token.
    EXPECT_EQ(std::count(chat.ids.begin(), chat.ids.end(), 257), 5);
  }
}

TEST(ChatTraining, RowsOfShareGptAndAlpacaAreTheConversationsTheyMean) {
  const ChatTraining t = training(kChatMl);
  const auto same = [&](const char* row, const char* messages) {
    const std::vector<TrainingChat> got = samples(t, row, "f"), want = samples(t, messages, "f");
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].ids, want[i].ids) << row;
      EXPECT_EQ(got[i].loss, want[i].loss) << row;
    }
  };
  same(
      R"({"id": "x_0", "conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": "u<|im_end|>1"}, {"from": "gpt", "value": "A one"}, {"from": "human", "value": "u2"}, {"from": "gpt", "value": "B"}]})",
      kTalk);
  same(
      R"({"system": "S", "conversations": [{"from": "user", "value": "u"}, {"from": "chatgpt", "value": "a"}, {"from": "observation", "value": "o"}, {"from": "assistant", "value": "b"}]})",
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}, {"role": "tool", "content": "o"}, {"role": "assistant", "content": "b"}]})");
  same(R"({"instruction": "Add.", "input": "1 2", "output": "3"})",
       R"({"messages": [{"role": "user", "content": "Add.\n1 2"}, {"role": "assistant", "content": "3"}]})");
  same(
      R"({"instruction": "Speak.", "input": "", "output": "So.", "system": "S"})",
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Speak."}, {"role": "assistant", "content": "So."}]})");
}

TEST(ChatTrainingMalformed, RowsOfShareGptAndAlpacaAreRefusedByName) {
  const ChatTraining t = training(kChatMl);
  const std::pair<const char*, const char*> cases[] = {
      {R"({"conversations": [{"from": "humen", "value": "u"}]})", "turn 1: from 'humen', expected"},
      {R"({"conversations": [{"from": "humen", "value": "u"}]})", "did you mean 'human'"},
      {R"({"conversations": [{"from": "human", "value": ["u"]}]})", "turn 1: has no text 'value'"},
      {R"({"conversations": {"from": "human"}})", "conversations: object, expected a list"},
      {R"({"conversations": [{"from": "human", "value": "u", "weight": 1}]})", "turn 1: unknown key 'weight'"},
      {R"({"conversations": [{"from": "human", "value": "u"}]})", "no message by the assistant"},
      {R"({"conversations": [], "messages": []})", "unknown key 'messages'"},
      {R"({"instruction": "i", "inputs": "", "output": "o"})", "unknown key 'inputs'; did you mean 'input'"},
      {R"({"instruction": "i", "output": ""})", "'output' is empty"},
      {R"({"instruction": 3, "output": "o"})", "'instruction' is number instead of a string"},
  };
  for (const auto& [row, message] : cases)
    EXPECT_TRUE(throws(ErrorKind::bad_file, message, [&] { samples(t, row, "f"); })) << row;
}

TEST(ChatTraining, AnInvitationThatIsNoPartOfTheHistoryEndsWhereTheTwoPart) {
  const std::string thinking =
      std::string(kChatMl).replace(std::string(kChatMl).rfind("assistant\n") + 10, 0, "<think>\n");
  EXPECT_EQ(learned(one_sample(training(thinking), kTalk, "f")), "|A one<|im_end|>|B<|im_end|>");
}

TEST(ChatTraining, ToolsReachTheTemplate) {
  const std::string with = std::string("{% if tools %}{{ tools | length }} tools {% endif %}") + kChatMl;
  const TrainingChat chat = one_sample(
      training(with),
      R"({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}], "tools": [{"type": "function"}]})",
      "f");
  EXPECT_TRUE(byte_tokenizer().decode(chat.ids).starts_with("1 tools "));
}

TEST(ChatTraining, RolesAndPartsThatATemplateReadsAreTaken) {
  const ChatTraining t = training(
      "{% for m in messages %}{% if m.role == 'judge' %}J{% endif %}{% if m.content is string %}{{ m.content }}{% else "
      "%}{% for p in m.content %}{{ p['text'] }}{% endfor %}{% endif %};{% endfor %}");
  const TrainingChat chat = one_sample(
      t,
      R"({"messages": [{"role": "judge", "content": [{"type": "text", "text": "u"}]}, {"role": "assistant", "content": "a"}]})",
      "f");
  EXPECT_EQ(byte_tokenizer().decode(chat.ids), "Ju;a;");
}

// A template that drops the reasoning of earlier answers, as reasoning models' do.
TEST(ChatTraining, AnswersOfATemplateThatDropsEarlierReasoningAreLearnedEachOrTheLast) {
  const std::string drops =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and not loop.last %}"
      "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const std::string talk =
      R"({"messages": [{"role": "user", "content": "q1"}, {"role": "assistant", "content": "r1</think>a1"},)"
      R"( {"role": "user", "content": "q2"}, {"role": "assistant", "content": "r2</think>a2"}, {"role": "user", "content": "q3"}]})";
  EXPECT_TRUE(throws(ErrorKind::bad_file,
                     "message 2: the template writes this answer otherwise when more follows, so it "
                     "cannot be told apart; --answers each",
                     [&] { samples(training(drops), talk, "f"); }));
  const std::vector<TrainingChat> each = samples(training(drops, Answers::each), talk, "f");
  ASSERT_EQ(each.size(), 2u);
  EXPECT_EQ(learned(each[0]), "|r1</think>a1<|im_end|>");
  EXPECT_EQ(learned(each[1]), "|r2</think>a2<|im_end|>");
  const std::string second = byte_tokenizer().decode(each[1].ids);
  EXPECT_NE(second.find("\na1<|im_end|>"), std::string::npos)
      << "the model sees earlier answers without reasoning: " << second;
  EXPECT_EQ(second.find("q3"), std::string::npos) << second;
  const std::vector<TrainingChat> last = samples(training(drops, Answers::last), talk, "f");
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].ids, each[1].ids);
  EXPECT_EQ(last[0].loss, each[1].loss);
  // Of a template that marks its answers itself, and of one that changes nothing.
  for (const char* text : {kMarked, kChatMl}) {
    const std::vector<TrainingChat> two = samples(training(text, Answers::each), kTalk, "f");
    ASSERT_EQ(two.size(), 2u);
    EXPECT_EQ(learned(two[0]), "|A one<|im_end|>");
    EXPECT_EQ(learned(two[1]), "|B<|im_end|>");
    EXPECT_EQ(two[1].ids, one_sample(training(text), kTalk, "f").ids);
  }
  EXPECT_NE(training(drops, Answers::each).hash(), training(drops).hash())
      << "packed data of the one is not the other's";
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
      {R"({"messages": [], "tools": [18446744073709551616]})",
       "f: line 3: byte 27: 18446744073709551616: a whole number"},
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
    EXPECT_TRUE(throws(ErrorKind::bad_file, what, [&] { samples(t, json, "f: line 3"); })) << json;
  // A template that drops what it wrote.
  const ChatTraining drops = training(
      "{% for m in messages %}{% if m.role == 'assistant' and not loop.last %}gone{% else %}{{ m.content }}{% endif "
      "%};{% endfor %}");
  EXPECT_TRUE(throws(ErrorKind::bad_file, "message 3: the template writes this answer otherwise",
                     [&] { samples(drops, kTalk, "f"); }));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "alternate",
                     [&] { samples(training("{{ raise_exception('roles must alternate') }}"), kTalk, "f"); }));
}

TEST(ChatTrainingMutationsSlow, EveryMutationIsMarkedOrRefused) {
  const ChatTraining t = training(kChatMl);
  survive_mutations({kTalk},
                    [&](const std::string& line) {
                      const TrainingChat chat = one_sample(t, line, "mutated");
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
      const std::string text = learned(one_sample(ChatTraining(all, byte_tokenizer(), Answers::all, fixed_time()),
                                                  R"({"messages": [{"role": "user", "content": "QQ1"}, {"role": )"
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
