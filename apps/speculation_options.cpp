#include "apps/speculation_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "base/units.h"
#include "infer/executor.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/speculate/draft_model.h"
#include "infer/speculate/ngram.h"

namespace tern {

namespace {

// That an id means the same in both.
void require_same_tokens(const ModelDescription& target, const ModelDescription& draft) {
  if (!draft.tokenizer) throw Error(ErrorKind::bad_file, "--draft {}: there is no tokenizer", draft.dir.path);
  const Tokenizer &a = *target.tokenizer, &b = *draft.tokenizer;
  for (int64_t id = 0; id < std::max(a.vocab_size(), b.vocab_size()); ++id)
    if (a.has(id) != b.has(id) || a.piece(id) != b.piece(id))
      throw Error(ErrorKind::usage,
                  "--draft {}: its token {} is {}, of {} it is {}; a draft model has the same tokenizer",
                  draft.dir.path, id, b.has(id) ? quote_json(b.piece(id)) : "none", target.dir.path,
                  a.has(id) ? quote_json(a.piece(id)) : "none");
}

}  // namespace

std::shared_ptr<const ModelDescription> draft_option(const Options& options, const ModelDescription& target) {
  const std::string kind = options.text("speculate");
  const bool named = options.has("draft");
  if (named && options.given("speculate") && kind != "draft")
    throw Error(ErrorKind::usage, "--draft: guesses for --speculate draft, which is {} here; give one of them", kind);
  if (!named && kind == "draft")
    throw Error(ErrorKind::usage, "--speculate draft: which model guesses? Give --draft MODEL");
  if (!named) return nullptr;
  auto draft = std::make_shared<ModelDescription>(describe_model(options.text("draft"), dtype_option(options)));
  refuse_encoder(*draft, "--draft");
  require_same_tokens(target, *draft);
  return draft;
}

SpeculationChoice::SpeculationChoice(const Options& options, std::shared_ptr<const ModelDescription> draft,
                                     int64_t sequences)
    : sequences_(sequences), draft_(std::move(draft)) {
  settings_.budget = 0;
  settings_.fast = options.flag("fast");
  if (settings_.fast && !draft_)
    throw Error(ErrorKind::usage,
                "--fast: guesses of a draft model are taken by rejection sampling; give --draft MODEL too. Those of "
                "--speculate ngram are taken exactly as often without it");
  if (!draft_ && options.text("speculate") == "off") {
    if (options.given("draft-tokens"))
      throw Error(ErrorKind::usage,
                  "--draft-tokens: nothing is guessed without --speculate ngram or --draft MODEL; give both or none");
    return;
  }
  guesses_ = true;
  settings_.most_tokens = options.integer("draft-tokens");
  settings_.budget = guess_budget(sequences, settings_.most_tokens);
}

// Beside a chunk of a prompt the guesses of others run; those of the only sequence never do.
void SpeculationChoice::add_to(InferenceNeeds& needs) const {
  if (!guesses_) return;
  needs.logit_rows += budget();
  needs.iteration_tokens =
      sequences_ > 1 ? needs.iteration_tokens + budget() : std::max(needs.iteration_tokens, 1 + budget());
}

MemoryBudget SpeculationChoice::beside_draft(MemoryBudget budget, int64_t context) {
  if (!draft_) return budget;
  context = std::min(context, model_context(*draft_));
  const auto fit_with = [&](int64_t texts) {
    needs_ = {.context = context,
              .sequences = texts,
              .iteration_tokens = std::max(sequences_, std::min(context, kDraftRows)),
              .logit_rows = sequences_};
    return inference_fit(draft_->spec, draft_->dtype, needs_);
  };
  const int64_t page_bytes = fit_with(1).kv_cache;
  const int64_t texts = std::clamp(budget.bytes / 8 / std::max<int64_t>(page_bytes, 1), int64_t{1}, sequences_);
  const InferenceFit fit = fit_with(texts);
  if (fit.total() > budget.bytes)
    throw Error(ErrorKind::does_not_fit, "--draft {}: it needs {} ({} of weights), there are {} ({}); leave it out",
                draft_->dir.path, format_bytes(fit.total()), format_bytes(fit.weights), format_bytes(budget.bytes),
                budget.source);
  draft_tensors_ = fit.tensors();
  budget.bytes -= fit.total();
  if (budget.program >= 0) budget.program += fit.total();
  budget.source += fmt::format(", less {} of the draft model", format_bytes(fit.total()));
  return budget;
}

void SpeculationChoice::load(int64_t vocab, Arena& arena) {
  TERN_CHECK(!proposer_, "SpeculationChoice: loaded twice");
  if (!guesses_) return;
  if (!draft_) {
    proposer_ = std::make_unique<NgramProposer>();
  } else {
    TERN_CHECK(needs_.context > 0, "SpeculationChoice: beside_draft comes first");
    const ModelSpec& spec = draft_->spec;
    weights_ = load_for_inference(*draft_, arena);
    const bool turns = spec.rope.kind != RopeKind::none;
    if (turns) rope_ = rope_table(spec, needs_.context, needs_.context);
    pool_.emplace(kv_shape(spec, draft_->dtype, needs_), kv_pages(needs_), arena);
    proposer_ = std::make_unique<DraftProposer>(
        *pool_, model_executor(spec, weights_, turns ? &rope_ : nullptr, arena),
        DraftLimits{
            .rows = needs_.iteration_tokens, .context = needs_.context, .vocab = spec.vocab, .draws_from = vocab});
  }
  settings_.proposer = proposer_.get();
}

int64_t most_context(const Options& options, const ModelDescription& model) {
  constexpr int64_t kUsualContext = 8192;
  return options.has("context") ? options.integer("context") : std::min(model_context(model), kUsualContext);
}

std::string speculation_words(const SpeculationFigures* f) {
  if (!f || f->guessed == 0) return "";
  return fmt::format("guessed {}, {:.0f} % accepted: about {:.2f} times as fast", counted(f->guessed, "token"),
                     100 * f->acceptance(), f->speed_up());
}

Json speculation_json(const SpeculationFigures& f) {
  return {{"guessed_tokens", f.guessed},       {"accepted_tokens", f.accepted}, {"acceptance", f.acceptance()},
          {"decode_steps", f.steps},           {"decoded_tokens", f.tokens},    {"steps_with_guesses", f.with_guesses},
          {"estimated_speed_up", f.speed_up()}};
}

}  // namespace tern
