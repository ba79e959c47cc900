#include "eval/task_run.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "eval/window_losses.h"
#include "formats/jinja/text.h"

namespace tern {
namespace {

// Where the white space begins that Python's str.rstrip takes away.
size_t end_without_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!jinja::is_space(decode_utf8(text.substr(begin)).code)) break;
    end = begin;
  }
  return end;
}

}  // namespace

EncodedPair encode_pair(const Tokenizer& tokenizer, std::string_view prompt, std::string_view continuation,
                        int32_t prefix, int32_t prefix_if_empty, const std::string& place) {
  EncodedPair pair;
  const EncodeOptions plain{.add_special = false};
  const size_t end = end_without_space(prompt);
  const std::string whole = std::string(prompt) + std::string(continuation);
  if (end == 0) {
    if (prefix_if_empty < 0)
      throw Error(ErrorKind::usage,
                  "{}: the prompt is empty, and this tokenizer has neither BOS nor EOS to stand before the answer",
                  place);
    pair.tokens = {prefix_if_empty};
    pair.first_scored = 1;
    tokenizer.encode_into(whole, plain, pair.tokens);
  } else {
    const auto in_front = static_cast<int64_t>(prefix >= 0);
    if (prefix >= 0) pair.tokens.push_back(prefix);
    tokenizer.encode_into(whole, plain, pair.tokens);
    pair.first_scored = in_front + static_cast<int64_t>(tokenizer.encode(prompt.substr(0, end), plain).size());
  }
  if (pair.first_scored >= static_cast<int64_t>(pair.tokens.size()))
    throw Error(ErrorKind::usage, "{}: the answer adds no token to the prompt; it must differ from the prompt's end",
                place);
  return pair;
}

std::vector<Window> choice_windows(const Tokenizer& tokenizer, std::span<const TaskItem> items, int64_t context,
                                   int32_t prefix, int32_t prefix_if_empty, const std::string& place) {
  std::vector<Window> windows;
  for (const TaskItem& item : items)
    for (const std::string& choice : item.choices) {
      const std::string where = fmt::format("{}: line {}", place, item.line);
      EncodedPair pair = encode_pair(tokenizer, item.prompt, choice, prefix, prefix_if_empty, where);
      const auto length = static_cast<int64_t>(pair.tokens.size());
      if (length - 1 > context)  // the last token is only predicted
        throw Error(ErrorKind::usage,
                    "{}: prompt and choice have {} tokens, the model reads {}; shorten the prompt (tern cuts nothing)",
                    where, length, context);
      windows.push_back({std::move(pair.tokens), pair.first_scored});
    }
  return windows;
}

std::vector<std::vector<ChoiceScore>> choice_scores(std::span<const TaskItem> items, const std::vector<Window>& windows,
                                                    const std::vector<double>& losses) {
  TERN_CHECK(windows.size() == losses.size(), "choice_scores: {} windows, {} losses", windows.size(), losses.size());
  std::vector<std::vector<ChoiceScore>> all;
  size_t w = 0;
  for (const TaskItem& item : items) {
    auto& scores = all.emplace_back();
    for (const std::string& choice : item.choices) {
      scores.push_back({.log_likelihood = -losses.at(w),
                        .tokens = windows[w].num_scored(),
                        .bytes = static_cast<int64_t>(choice.size()),
                        .characters = static_cast<int64_t>(count_utf8(choice))});
      ++w;
    }
  }
  return all;
}

std::vector<double> ragged_losses(const ModelSpec& spec, const ModelWeights& weights,
                                  const std::vector<Window>& windows, int64_t batch, Arena& arena,
                                  std::optional<KvType> kv) {
  const auto losses_of = [&](const std::vector<Window>& some, int64_t at_once) {
    return window_losses_from(
        0, spec, weights, some, {}, at_once, arena, [](size_t, std::span<const double>) { return true; }, kv);
  };
  const bool by_length = spec.rope.kind == RopeKind::dynamic || spec.rope.kind == RopeKind::longrope;
  if (!by_length) return losses_of(windows, batch);
  std::vector<double> losses;
  for (const Window& w : windows) losses.push_back(losses_of({w}, 1).front());
  return losses;
}

}  // namespace tern
