// Windows of a text, one function per convention.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "apps/common.h"
#include "apps/eval_windows.h"
#include "apps/read_text.h"
#include "base/error.h"
#include "base/options.h"
#include "base/units.h"
#include "eval/wikitext.h"
#include "formats/chat/training.h"
#include "formats/data/pack.h"
#include "formats/data/text_data.h"
#include "formats/data/token_data.h"
#include "infer/load.h"
#include "infer/memory_fit.h"

namespace tern {
namespace {

void limit_tokens(const Options& options, std::vector<int32_t>& tokens) {
  if (options.has("max-tokens") && static_cast<int64_t>(tokens.size()) > options.integer("max-tokens"))
    tokens.resize(static_cast<size_t>(options.integer("max-tokens")));
}

int64_t choose_window(const Options& options, const ModelDescription& model, int64_t usual) {
  const int64_t most = model_context(model);
  const int64_t window = options.has("window") ? options.integer("window") : std::min(usual, most);
  if (window > most)
    throw Error(ErrorKind::usage, "--window is {}, the model was made for {} tokens; use {} or less", window, most,
                most);
  return window;
}

// Windows that overlap repeat the text many times over: priced before they are made. So few that the model decides
// are left to its own refusal, which names the least memory of all.
constexpr double kFewWindows = 1 << 20;  // bytes

void check_windows_fit(const Options& options, const PerplexityReport& r, int64_t documents, bool masked) {
  const double bytes = stride_window_bytes(r.num_tokens, documents, r.window, r.stride, masked);
  const MemoryBudget budget = memory_budget(options);  // beside what is resident, the tokens among it
  if (bytes <= std::max(kFewWindows, static_cast<double>(budget.bytes))) return;
  const auto needed = static_cast<int64_t>(std::min(bytes, 0x1p62));
  const std::string more = memory_remedy(budget, needed);
  const std::string fewer = budget.bytes > 0 ? "a larger --stride, or --max-tokens" : "";
  throw Error(ErrorKind::does_not_fit,
              "windows of {} tokens every {} over {} tokens take {}, there are {} ({}); use {}{}{}", r.window, r.stride,
              format_with_commas(r.num_tokens), format_bytes(needed), format_bytes(budget.bytes), budget.source, fewer,
              fewer.empty() || more.empty() ? "" : ", or ",
              more.empty() ? (fewer.empty() ? "a machine with more memory" : "") : more + " and what the model takes");
}

// --- one function per convention ---

// A raw text is one document.
void take_text(const Options& options, const Tokenizer& tokenizer, const std::string& data, int32_t prefix,
               EvalWindows& work) {
  PerplexityReport& r = work.report;
  std::string text = read_text(data, {.bytes = text_room(options)});
  check_text(text, data);
  bool whole = false;
  const std::vector<int32_t> tokens = encode_at_most(
      tokenizer, text, options.has("max-tokens") ? static_cast<size_t>(options.integer("max-tokens")) : SIZE_MAX, whole,
      text_room(options), data);
  r.num_tokens = static_cast<int64_t>(tokens.size());
  if (r.stride < r.window && prefix >= 0)  // all are scored
    r.num_bytes = static_cast<int64_t>(whole ? text.size() : tokenizer.decode(tokens).size());
  text = {};
  check_windows_fit(options, r, 1, false);
  work.windows = stride_windows(tokens, r.window, r.stride, prefix);
}

// The windows of one document, with their masks where the file says what is scored.
void take_document(const TokenData& file, int64_t begin, int64_t end, int32_t prefix, EvalWindows& work) {
  std::vector<int32_t> tokens(static_cast<size_t>(end - begin));
  file.read(begin, tokens);
  const bool starts_itself = prefix >= 0 && !tokens.empty() && tokens[0] == prefix;
  auto windows = stride_windows(tokens, work.report.window, work.report.stride, starts_itself ? -1 : prefix);
  int64_t offset = starts_itself || prefix < 0 ? 0 : -1;  // of the window's first token in the document
  for (const Window& w : windows) {
    if (file.has_loss()) {
      std::vector<uint8_t> mask;
      for (int64_t i = 0; i < static_cast<int64_t>(w.tokens.size()); ++i)
        mask.push_back(offset + i >= 0 && file.loss(begin + offset + i));
      for (int64_t i = w.first_scored; i < static_cast<int64_t>(w.tokens.size()); ++i)
        work.report.num_scored += mask[static_cast<size_t>(i)] != 0;
      work.masks.push_back(std::move(mask));
    }
    offset += work.report.stride;
  }
  work.windows.insert(work.windows.end(), std::move_iterator(windows.begin()), std::move_iterator(windows.end()));
  work.report.num_tokens += end - begin;
}

// Documents by themselves, as training sees them; the last may be cut.
void take_documents(const Options& options, const ModelDescription& model, const std::string& data, int32_t prefix,
                    EvalWindows& work) {
  PerplexityReport& r = work.report;
  const int64_t most = options.has("max-tokens") ? options.integer("max-tokens") : INT64_MAX;
  const TokenData file = load_documents(options, model, data, answers_from_name(options.text("answers")), most);
  r.num_tokens = std::min(file.num_tokens(), most);
  check_windows_fit(options, r, file.num_documents(), file.has_loss());
  constexpr int64_t kManyTokens = int64_t{1} << 20;  // after so many the file's pages are let go
  int64_t kept = 0;
  r.num_tokens = 0;
  for (int64_t d = 0; d < file.num_documents(); ++d) {
    const int64_t begin = file.documents()[static_cast<size_t>(d)];
    const int64_t end = std::min(file.documents()[static_cast<size_t>(d) + 1], most);
    if (begin >= end) break;
    take_document(file, begin, end, prefix, work);
    if (end - kept > kManyTokens) file.let_go(), kept = end;
  }
  const bool all_scored = r.stride < r.window && prefix >= 0;
  if (all_scored && !file.has_loss() && r.num_tokens == file.num_tokens()) r.num_bytes = file.info().text_bytes;
}

EvalWindows stride_work(const Options& options, const ModelDescription& model, const std::string& data) {
  EvalWindows work;
  PerplexityReport& r = work.report;
  r.window = choose_window(options, model, 1024);
  r.stride = options.has("stride") ? options.integer("stride") : std::max<int64_t>(1, r.window - 1);
  if (r.stride > r.window)
    throw Error(ErrorKind::usage, "--stride {} is above --window {}: tokens between the windows would be left out",
                r.stride, r.window);
  const int32_t prefix = text_prefix(options, *model.tokenizer, r.bos_rule);
  if (has_documents(data))
    take_documents(options, model, data, prefix, work);
  else
    take_text(options, *model.tokenizer, data, prefix, work);
  return work;
}

EvalWindows harness_work(const Options& options, const ModelDescription& model, const std::string& raw) {
  const Tokenizer& tokenizer = *model.tokenizer;
  const auto prefix = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos();
  if (!prefix)
    throw Error(ErrorKind::usage,
                "--convention harness needs a BOS or EOS token before the first word; this tokenizer has none");
  EvalWindows work;
  work.report.window = work.report.stride = choose_window(options, model, model.spec.context);
  work.report.bos_rule = tokenizer.bos() ? "each page conditioned on BOS" : "each page conditioned on EOS";
  for (const std::string& page : wikitext_pages(raw)) {
    const auto tokens = tokenizer.encode(wikitext_detokenize(page), {.add_special = false});
    const auto windows = harness_windows(tokens, work.report.window, *prefix);
    work.windows.insert(work.windows.end(), windows.begin(), windows.end());
    work.report.num_tokens += static_cast<int64_t>(tokens.size());
    work.report.num_words += harness_words(page);
    work.report.num_bytes += static_cast<int64_t>(page.size());
    ++work.report.num_pages;
  }
  return work;
}

EvalWindows whole_text_work(const Options& options, const ModelDescription& model, const std::string& raw,
                            Convention convention) {
  const Tokenizer& tokenizer = *model.tokenizer;
  const bool gptq = convention == Convention::gptq;
  EvalWindows work;
  work.report.window = work.report.stride = choose_window(options, model, gptq ? 2048 : 512);
  if (!gptq && work.report.window < 4)
    throw Error(ErrorKind::usage, "--window {}: --convention llamacpp scores the second half of at least 4 tokens",
                work.report.window);
  std::vector<int32_t> tokens = tokenizer.encode(gptq ? gptq_text(raw) : raw);
  limit_tokens(options, tokens);
  work.report.num_tokens = static_cast<int64_t>(tokens.size());
  if (gptq) {
    work.report.bos_rule = tokenizer.adds_bos() ? "one BOS before the whole text" : "none";
    work.windows = gptq_windows(tokens, work.report.window);
  } else {
    const int32_t bos = tokenizer.bos() && tokenizer.adds_bos() ? *tokenizer.bos() : -1;
    work.report.bos_rule = bos >= 0 ? "BOS forced at each chunk's start" : "none";
    work.windows = llamacpp_windows(tokens, work.report.window, bos);
  }
  return work;
}

EvalWindows make_work(const Options& options, const ModelDescription& model, Convention convention,
                      const std::string& data) {
  if (convention == Convention::stride) return stride_work(options, model, data);
  if (has_documents(data))
    throw Error(ErrorKind::usage,
                "--convention {} is defined on a raw text; {} is a token or JSONL file (use --convention stride)",
                name_of(convention), data);
  for (const char* flag : {"stride", "bos"})
    if (options.given(flag))
      throw Error(ErrorKind::usage, "--{} belongs to --convention stride; {} fixes it", flag, name_of(convention));
  // The page that is rewritten, or the text; then tokens and windows of it.
  constexpr int64_t kRewritten = 2, kTokens = 2 * sizeof(int32_t);
  const std::string raw = read_text(data, {text_room(options), 1 + kRewritten + kTokens});
  check_text(raw, data);
  if (convention == Convention::harness && options.has("max-tokens"))
    throw Error(ErrorKind::usage, "--max-tokens cannot be combined with --convention harness: it scores whole pages");
  return convention == Convention::harness ? harness_work(options, model, raw)
                                           : whole_text_work(options, model, raw, convention);
}

}  // namespace

int32_t bos_in_front(const Options& options, const Tokenizer& tokenizer, std::string& rule) {
  const std::string& choice = options.text("bos");
  rule = "none";
  if (choice == "always" && !tokenizer.bos())
    throw Error(ErrorKind::usage, "--bos always: this tokenizer has no BOS token; use --bos auto");
  if (choice == "never" || (choice == "auto" && !(tokenizer.bos() && tokenizer.adds_bos()))) return -1;
  rule = "BOS in front";
  return *tokenizer.bos();
}

int32_t text_prefix(const Options& options, const Tokenizer& tokenizer, std::string& rule) {
  if (const int32_t bos = bos_in_front(options, tokenizer, rule); bos >= 0 || options.text("bos") == "never")
    return bos;
  if (tokenizer.bos()) {
    rule = "BOS in front (the tokenizer has one and does not add it)";
    return *tokenizer.bos();
  }
  if (!tokenizer.eos()) return -1;
  rule = "EOS in front (the tokenizer has no BOS)";
  return *tokenizer.eos();
}

EvalWindows eval_windows(const Options& options, const ModelDescription& model) {
  const Convention convention = convention_from_name(options.text("convention"));
  refuse_words_of_conversations(options, options.text("data"));
  EvalWindows work = make_work(options, model, convention, options.text("data"));
  work.report.convention = name_of(convention);
  if (work.windows.empty() || (!work.masks.empty() && work.report.num_scored == 0))
    throw Error(work.report.num_tokens == 0 ? ErrorKind::bad_file : ErrorKind::usage,
                "{}: {} give{} no window of {} to score; use a longer text{}", options.text("data"),
                counted(work.report.num_tokens, "token"), work.report.num_tokens == 1 ? "s" : "", work.report.window,
                work.report.num_tokens == 0 ? "" : " or a smaller --window");
  return work;
}

}  // namespace tern
