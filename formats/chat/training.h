#pragma once
// Conversations as training data: tokens, and which of them the assistant wrote.

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/chat/template.h"
#include "formats/chat/template_files.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

/// A sample. loss has the shape of ids.
struct TrainingChat {
  std::vector<int32_t> ids;
  std::vector<uint8_t> loss;  // 1: an answer that is learned
};

/// Which of a conversation's answers are learned.
enum class Answers : uint8_t {
  all,   // in one sample; refused where the template writes an earlier answer differently once later turns follow
  last,  // the last one
  each,  // a sample for each: the turns up to it, as the model sees them when it writes it
};
std::string_view name_of(Answers);
/// Errors  usage: an unknown name.
Answers answers_from_name(std::string_view);

/// Renders and marks conversations by one model's templates.
///
/// What the assistant wrote is what stands between {% generation %} and {% endgeneration %}. A template without these
/// is rendered twice for each answer: the conversation before it with the prompt for an answer, and the same
/// conversation with the answer. The answer begins where the two texts differ, and ends where the second ends (at its
/// last special token, if only white space follows). A token that lies across the border is the assistant's.
class ChatTraining {
 public:
  /// `now`: the time for templates that write a date; absent: that of the clock, read here.
  /// Errors  bad_file: no template; JinjaError.
  ChatTraining(ChatTemplates, Tokenizer, Answers = Answers::all, std::optional<std::tm> now = {});

  /// Gives `sample` each sample of the conversation {"messages": [...], "tools": [...]}; tools may be missing.
  /// Errors  bad_file "PLACE: …": not of that form, an unknown key (with the nearest known one), more than 10,000
  ///         messages, none by the assistant, a message without a role, or with one that is neither usual nor named in
  ///         a template, a list of parts where the template reads texts; what the template refuses; a template
  ///         that writes earlier turns differently once later ones follow, so that its answers cannot be located
  ///         (Answers::all); answers of more than a gigabyte together with the turns before them.
  void encode(std::string_view json, const std::string& place,
              const std::function<void(const TrainingChat&)>& sample) const;
  /// A hash of everything that decides samples, except the tokenizer: the templates' texts, the answers.
  std::string hash() const;

 private:
  struct Side {
    ChatTemplate jinja;
    std::vector<int32_t> control;
  };
  Side side(bool tools) const;
  struct Marked;
  class Renderer;
  Marked mark_all(const Renderer&, const Json& messages) const;
  Marked mark_last(const Renderer&, const Json& messages, size_t number) const;
  TrainingChat encode_marked(const Marked&, const Side&, size_t& spent, const std::string& place) const;

  ChatTemplates templates_;
  Tokenizer tokenizer_;
  Answers answers_;
  std::tm now_;
  Side plain_, with_tools_;
};

}  // namespace tern
