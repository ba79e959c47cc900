// Speculation never changes a token: whatever is guessed, an engine says to the bit what it says without.
#include "infer/speculate/speculation.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "infer/constrain/constraint.h"
#include "infer/engine.h"
#include "infer/fake_model_testing.h"
#include "infer/speculate/draft_model.h"
#include "infer/speculate/ngram.h"

namespace tern {
namespace {

constexpr uint64_t kGuessingSeed = 20261124;
constexpr int64_t kGuessingContext = 90;

// Texts of the fake model's tokens; the last three write nothing.
std::shared_ptr<const TokenTexts> texts() {
  std::vector<std::string> t;
  for (int i = 0; i < kFakeVocab; ++i)
    t.push_back(i < kFakeVocab - 3 ? std::string(1 + i % 2, static_cast<char>('a' + i % 5)) : "");
  return std::make_shared<const TokenTexts>(token_texts(t));
}

Request guessing_request(uint64_t number) {
  Request r;
  std::mt19937_64 random(kGuessingSeed + number);
  const auto one_of = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  const std::vector<int32_t> period = {3, 7, one_of(kFakeVocab), 7};
  const int length = 1 + one_of(40), kind = one_of(3);
  for (int i = 0; i < length; ++i)
    r.prompt.push_back(kind ? one_of(kFakeVocab) : period[static_cast<size_t>(i) % period.size()]);
  r.sampling.temperature = one_of(3) ? 0.7 : 0;
  r.sampling.top_k = one_of(2) ? 0 : 3;
  r.sampling.seed = number;
  if (one_of(3) == 0) r.sampling.repetition_penalty = 1.5;
  if (one_of(3) == 0) r.sampling.frequency_penalty = 0.5;
  if (one_of(3) == 0) r.eos = {one_of(kFakeVocab), 39};
  r.num_samples = one_of(4) ? 1 : 3;
  r.max_tokens = 1 + one_of(60);
  if (one_of(4) == 0) {
    r.eos = {39};
    r.constraint =
        std::make_shared<Constraint>(texts(), parse_gbnf("root ::= (\"ab\" | \"c\" [de]+ | \"dd\")*", "test"));
  }
  return r;
}

// What each sample says without guesses, alone.
struct SampleOutput {
  std::vector<int32_t> tokens;  // the ending one, too
  std::vector<double> log_probabilities;
  FinishReason reason = FinishReason::none;
  bool operator==(const SampleOutput&) const = default;
};
using Texts = std::map<std::pair<uint64_t, int64_t>, SampleOutput>;  // by request and sample

struct GuessingSetting {
  int64_t page = 4, pages = 400, budget = 64, chunk = 16;
  bool cache = false;
};

Texts run(std::span<const uint64_t> numbers, const GuessingSetting& s, const SpeculationSettings& speculation,
          const std::function<void(uint64_t id, uint64_t number)>& submitted, SpeculationFigures* figures,
          int64_t* preemptions, const Clock& clock = VirtualClock()) {
  Arena arena;
  KvPool pool({.layers = {{1, 1}}, .page_tokens = s.page, .type = KvType::f32}, s.pages, arena);
  Texts said;
  {
    Engine engine(
        pool, fake_model, nullptr,
        {{.token_budget = s.budget, .chunk = s.chunk, .max_running = 64}, kGuessingContext, s.cache, speculation},
        clock);
    std::map<uint64_t, uint64_t> number_of;
    std::mt19937 random(1);
    for (size_t i = 0; i < numbers.size() || !engine.idle();) {
      for (; i < numbers.size() && (engine.idle() || random() % 2); ++i) {
        const uint64_t id = engine.submit(guessing_request(numbers[i]));
        number_of[id] = numbers[i];
        if (submitted) submitted(id, numbers[i]);
      }
      for (const Event& event : engine.step()) {
        SampleOutput& one = said[{number_of.at(event.request), event.sample}];
        if (event.drawn) {
          one.tokens.push_back(event.drawn->id);
          one.log_probabilities.push_back(event.drawn->log_probability);
        }
        if (!event.finished) continue;
        one.reason = event.finished->reason;
        if (preemptions) *preemptions += event.finished->num_preemptions;
      }
    }
    if (figures && engine.speculation()) *figures = *engine.speculation();
  }
  EXPECT_EQ(pool.num_free(), s.pages) << "pages of guesses were lost";
  return said;
}

// Knows what will be said, and says something else with a given chance.
class Oracle : public Proposer {
 public:
  Oracle(const Texts& texts, double wrong) : texts_(texts), wrong_(wrong) {}
  void submitted(uint64_t id, uint64_t number) {
    for (int64_t i = 0; i < guessing_request(number).num_samples; ++i)
      who_[id + static_cast<uint64_t>(i)] = {number, i};
  }
  std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk> asks) override {
    std::vector<std::vector<Guess>> all;
    for (const ProposalAsk& ask : asks) {
      const auto who = who_.at(ask.sequence);
      const std::vector<int32_t>& said = texts_.at(who).tokens;
      EXPECT_EQ(ask.tokens.size(), guessing_request(who.first).prompt.size() + static_cast<size_t>(ask.num_generated));
      std::vector<Guess>& guesses = all.emplace_back();
      for (auto i = ask.num_generated; i < std::ssize(said) && std::ssize(guesses) < ask.most; ++i) {
        const bool is_wrong = std::uniform_real_distribution<double>()(random_) < wrong_;
        const int32_t token = said[static_cast<size_t>(i)];
        guesses.push_back({is_wrong ? (token + 1) % kFakeVocab : token, static_cast<uint8_t>(is_wrong)});
      }
    }
    return all;
  }
  void forget(uint64_t sequence) override { EXPECT_EQ(who_.erase(sequence), 1u); }

 private:
  const Texts& texts_;
  double wrong_;
  std::map<uint64_t, std::pair<uint64_t, int64_t>> who_;
  std::mt19937 random_{7};
};

// A draft model that likes what the fake model does not.
Tensor worse_model(const Batch& batch, const KvPool& pool) {
  const Tensor logits = fake_model(batch, pool);
  for (float& x : logits.span<float>()) x = -x;
  return logits;
}

TEST(Speculation, NoGuessChangesATokenOrALogProbability) {
  constexpr uint64_t kRequests = 64;
  std::vector<uint64_t> numbers;
  Texts want;
  for (uint64_t i = 0; i < kRequests; ++i) {
    numbers.push_back(i);
    want.merge(run({&i, 1}, {}, {}, {}, nullptr, nullptr));
  }
  const GuessingSetting settings[] = {{.pages = 2000, .budget = 600, .chunk = 100},
                                      {.page = 1, .pages = 3000, .budget = 100},
                                      {.page = 3, .pages = 70, .budget = 40, .chunk = 7},
                                      {.page = 4, .pages = 50, .budget = 50, .chunk = 5, .cache = true},
                                      {.page = 16, .pages = 20, .budget = 30, .chunk = 16, .cache = true},
                                      {.page = 5, .pages = 800, .budget = 200, .chunk = 33, .cache = true}};
  int64_t all_preemptions = 0;
  for (const GuessingSetting& s : settings) {
    SCOPED_TRACE(testing::Message() << "seed " << kGuessingSeed << ", pages of " << s.page << ", chunks of "
                                    << s.chunk);
    NgramProposer ngram;
    Oracle right(want, 0), wrong(want, 1), mixed(want, 0.3);
    Arena arena;
    KvPool draft_pool(kFakeShape, 300, arena), other_pool(kFakeShape, 300, arena);
    const DraftLimits limits{.rows = 50, .context = kGuessingContext, .vocab = kFakeVocab, .draws_from = kFakeVocab};
    DraftProposer same_model(draft_pool, fake_model, limits), other_model(other_pool, worse_model, limits);
    for (Proposer* proposer :
         std::initializer_list<Proposer*>{nullptr, &ngram, &right, &wrong, &mixed, &same_model, &other_model})
      for (const int64_t most : {4, 30}) {
        SpeculationFigures figures;
        int64_t preemptions = 0;
        auto* oracle = dynamic_cast<Oracle*>(proposer);
        const Texts got = run(
            numbers, s, {.proposer = proposer, .most_tokens = most, .measured = false},
            [&](uint64_t id, uint64_t number) {
              if (oracle) oracle->submitted(id, number);
            },
            &figures, &preemptions);
        EXPECT_TRUE(got == want) << "most " << most;
        all_preemptions += preemptions;
        // Guesses behind an end are not drawn, nor those that a grammar forbids.
        if (proposer == &same_model) { EXPECT_GT(figures.acceptance(), 0.4) << figures.guessed; }
        if (proposer == &other_model) { EXPECT_LT(figures.acceptance(), 0.2) << figures.guessed; }
        EXPECT_EQ(draft_pool.num_free() + other_pool.num_free(), 600) << "texts that ended are forgotten";
        if (!oracle) continue;
        EXPECT_GT(figures.guessed, 30);
        if (proposer == &right) { EXPECT_EQ(figures.accepted, figures.guessed); }
        if (proposer == &wrong) { EXPECT_EQ(figures.accepted, 0); }
        if (proposer == &mixed) { EXPECT_TRUE(figures.acceptance() > 0.05 && figures.acceptance() < 0.6); }
      }
  }
  EXPECT_GT(all_preemptions, 100);
}

// Goes on by what nobody can foresee, each time that it is asked.
class ErraticClock : public Clock {
 public:
  explicit ErraticClock(uint32_t seed) : random_(seed) {}
  int64_t now_ns() const override {
    const uint32_t most = random_() % 8 == 0 ? 20'000'000 : 100'000;
    return now_ns_ += static_cast<int64_t>(random_() % most);
  }
  int64_t wall_ns() const override { return now_ns(); }
  void sleep_ns(int64_t duration_ns) override { now_ns_ += duration_ns; }

 private:
  mutable std::mt19937 random_;
  mutable int64_t now_ns_ = 0;
};

// How many guesses are computed follows from the clock: what is said does not.
TEST(Speculation, TheClockChangesNoTokenAndNoLogProbability) {
  std::vector<uint64_t> numbers;
  Texts want;
  for (uint64_t i = 0; i < 40; ++i) {
    numbers.push_back(i);
    want.merge(run({&i, 1}, {}, {}, {}, nullptr, nullptr));
  }
  std::set<int64_t> counts;
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    const ErraticClock clock(seed);
    NgramProposer ngram;
    Arena arena;
    KvPool draft_pool(kFakeShape, 300, arena);
    const DraftLimits limits{.rows = 50, .context = kGuessingContext, .vocab = kFakeVocab, .draws_from = kFakeVocab};
    DraftProposer draft(draft_pool, fake_model, limits, clock);
    for (Proposer* proposer : std::initializer_list<Proposer*>{&ngram, &draft})
      for (const bool cache : {false, true}) {
        SpeculationFigures figures;
        const Texts got = run(numbers, {.page = 4, .pages = 300, .budget = 100, .chunk = 16, .cache = cache},
                              {.proposer = proposer, .most_tokens = 6}, {}, &figures, nullptr, clock);
        EXPECT_TRUE(got == want) << "clock " << seed;
        counts.insert(figures.guessed);
      }
  }
  EXPECT_GT(counts.size(), 4u) << "the clock decided nothing";
}

// A kept prefix of a conversation has no keys of guesses.
TEST(Speculation, AConversationGoesOnAsWithoutGuesses) {
  Arena arena;
  KvPool pool(kFakeShape, 100, arena);
  VirtualClock clock;
  const auto talk = [&](const SpeculationSettings& speculation) {
    Engine engine(pool, fake_model, nullptr, {.scheduler = {}, .context = 200, .speculation = speculation}, clock);
    const uint64_t prefix = engine.keep_prefix();
    Request r;
    r.prompt = {1, 2, 3, 1, 2, 3, 1, 2};
    r.prefix = prefix;
    r.max_tokens = 21;
    std::vector<int32_t> all;
    for (int turn = 0; turn < 4; ++turn) {
      engine.submit(r);
      while (!engine.idle())
        for (const Event& e : engine.step())
          if (e.finished) r.prompt.insert(r.prompt.end(), e.finished->token_ids.begin(), e.finished->token_ids.end());
      EXPECT_EQ(engine.prefix_tokens(prefix) + 1, std::ssize(r.prompt));
      EXPECT_EQ(pool.num_free(), 100 - (engine.prefix_tokens(prefix) + 3) / 4) << "turn " << turn;
      r.prompt.insert(r.prompt.end(), {5, 6});
    }
    return r.prompt;
  };
  NgramProposer ngram;
  const std::vector<int32_t> want = talk({});
  EXPECT_EQ(talk({.proposer = &ngram, .measured = false}), want);
}

TEST(Ngram, TheLongestAndLatestPlaceIsFound) {
  NgramIndex index;
  std::vector<int32_t> text = {9, 1, 2, 3, 4, 8, 1, 2, 5, 7, 1, 2};
  EXPECT_EQ(index.find(text).length, 2);
  EXPECT_EQ(index.find(text).next, 8) << "the latest of equal ones";
  text.insert(text.end(), {3, 4});
  EXPECT_EQ(index.find(text).length, 4);
  EXPECT_EQ(index.find(text).next, 5);
  text.push_back(77);
  EXPECT_EQ(index.find(text).length, 0);
  EXPECT_EQ(NgramIndex().find({}).length, 0);
}

TEST(Ngram, FindsWhatASearchFromTheEndFinds) {
  std::mt19937 random(kGuessingSeed);
  std::vector<int32_t> text;
  NgramIndex index;
  for (int i = 0; i < 600; ++i) {
    text.push_back(static_cast<int32_t>(random() % 3));
    if (random() % 3 == 0) continue;
    NgramIndex::Match want;
    const auto size = std::ssize(text);
    int seen = 0;
    for (int64_t end = size - 2; end >= 0; --end) {
      int64_t length = 0;
      while (length < NgramIndex::kLongest && length <= end &&
             text[static_cast<size_t>(end - length)] == text[static_cast<size_t>(size - 1 - length)])
        ++length;
      if (length >= NgramIndex::kShortest && ++seen <= 64 && length > want.length) want = {length, end + 1};
    }
    const NgramIndex::Match got = index.find(text);
    ASSERT_EQ(got.length, want.length) << i;
    if (want.length > 0) { ASSERT_EQ(got.next, want.next) << i; }
  }
}

TEST(Ngram, ATextThatRepeatsItselfIsGuessedToGoOn) {
  NgramProposer ngram;
  const std::vector<int32_t> text = {9, 4, 5, 6, 4, 5, 6, 4};
  const ProposalAsk ask{.sequence = 3, .tokens = text, .most = 8};
  std::vector<int32_t> guessed;
  const std::vector<std::vector<Guess>> proposed = ngram.propose({&ask, 1});
  for (const Guess& g : proposed.at(0)) guessed.push_back(g.token);
  EXPECT_EQ(guessed, (std::vector<int32_t>{5, 6, 4, 5, 6, 4, 5, 6}));
}

}  // namespace
}  // namespace tern
