// What text of a given form takes beside the model: reading the form, the first mask, and the mask of each token.
//   mask_times TOKENIZER [TEXTS]     a tokenizer's folder or file; TEXTS (20) are written of each form
// Two ways of going on: along a document as people write it (the longest tokens that spell it), and by tokens drawn evenly from
// those allowed, which visits states that no document has. Each text of the first way has a Constraint of its own, as each request
// has; masks of states that were met in the same text are looked up, as in the server. One line of JSON for each form.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "base/clock.h"
#include "base/json.h"
#include "formats/tokenizer/tokenizer.h"
#include "infer/constrain/constraint.h"
#include "infer/constrain/json_schema.h"

namespace {

using namespace tern;

struct Form {
  const char *name, *schema, *grammar, *document;  // schema or grammar
};
constexpr const char* kObject = nullptr;
const Form kForms[] = {
    {"any JSON object", kObject, nullptr,
     R"({"id": 17, "title": "A night at sea", "tags": ["storm", "harbour", "boats"], "seen": {"by": "the old man", "at": 4.25, "again": false}, "next": null})"},
    {"a tool's arguments",
     R"({"type":"object","properties":{"place":{"type":"string","maxLength":64},"unit":{"enum":["celsius","fahrenheit"]},
"days":{"type":"integer"},"hourly":{"type":"boolean"}},"required":["place","unit","days"],"additionalProperties":false})",
     nullptr, R"({"place": "Saint-Malo, Brittany", "unit": "celsius", "days": 5, "hourly": false})"},
    {"a list of records",
     R"({"type":"object","properties":{"people":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},
"age":{"type":"integer"},"mail":{"type":["string","null"]},"roles":{"type":"array","items":{"enum":["admin","editor","reader","guest"]}}},
"required":["name","age","mail","roles"],"additionalProperties":false}}},"required":["people"],"additionalProperties":false})",
     nullptr,
     R"({"people":[{"name":"Anna Berg","age":41,"mail":"anna@example.org","roles":["admin","editor"]},{"name":"Jo Lindqvist","age":29,"mail":null,"roles":["reader"]},{"name":"Mei Tan","age":35,"mail":"mei@example.org","roles":["guest","reader"]}]})"},
    {"a tree that refers to itself",
     R"({"$defs":{"node":{"type":"object","properties":{"value":{"type":"number"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},
"required":["value","children"],"additionalProperties":false}},"$ref":"#/$defs/node"})",
     nullptr,
     R"({"value": 1.5, "children": [{"value": 2, "children": []}, {"value": -3.25, "children": [{"value": 4e2, "children": []}]}]})"},
    {"arithmetic in GBNF", nullptr,
     "root ::= (expr \"=\" ws term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num | \"(\" ws expr \")\" "
     "ws\n"
     "ident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n",
     "width *(height +2)-17 =area\nspeed /60 +offset =minutes\n"},
    {"four thousand characters of length", R"({"type":"string","minLength":10,"maxLength":4000})", nullptr,
     "\"She asked him whether the boats were home; he said that two of them were, that the third would come with the "
     "tide.\""}};

double now_ms() { return 1e-6 * static_cast<double>(real_clock().now_ns()); }

std::string gbnf_of(const Form& form) {
  if (form.grammar) return form.grammar;
  return form.schema ? gbnf_of_schema(parse_json(form.schema, form.name), form.name) : gbnf_of_any_object();
}

struct Times {
  double read_ms = 0, first_ms = 0;  // means
  std::vector<double> each_ms;       // of masks behind the first
};

// The longest token that spells what is left of the document, or one drawn evenly from those allowed; -1: none.
int32_t next_token(const TokenTexts& texts, const std::vector<float>& scores, std::string_view left, bool drawn,
                   std::mt19937& random) {
  std::vector<int32_t> may;
  int32_t longest = -1;
  size_t length = 0;
  for (const TokenTexts::Text& t : texts.sorted) {
    if (!std::isfinite(scores[static_cast<size_t>(t.id)])) continue;
    may.push_back(t.id);
    if (t.bytes.size() > length && left.starts_with(t.bytes)) longest = t.id, length = t.bytes.size();
  }
  return !drawn ? longest : may.empty() ? -1 : may[random() % may.size()];
}

// `most` tokens of one text. False: the document is not one of the form.
bool write_text(const Form& form, const std::shared_ptr<const TokenTexts>& texts, int most, bool drawn,
                std::mt19937& random, Times& times) {
  const double begin = now_ms();
  const auto constraint = std::make_shared<Constraint>(texts, parse_gbnf(gbnf_of(form), form.name));
  times.read_ms += now_ms() - begin;
  ConstrainedText text(constraint);
  const int32_t end = static_cast<int32_t>(texts->vocab) - 1;
  std::vector<float> scores;
  std::string_view left = form.document;
  for (int step = 0; step < most; ++step) {
    scores.assign(static_cast<size_t>(texts->vocab), 0);
    const double before = now_ms();
    text.mask(scores, {&end, 1});
    const double ms = now_ms() - before;
    if (step == 0)
      times.first_ms += ms;
    else
      times.each_ms.push_back(ms);
    if (text.is_done() || (!drawn && left.empty())) return text.may_end();
    const int32_t id = next_token(*texts, scores, left, drawn, random);
    if (id < 0 || id == end) return drawn;
    text.push(id);
    if (!drawn)
      left.remove_prefix(texts->sorted[static_cast<size_t>(texts->of_id[static_cast<size_t>(id)])].bytes.size());
  }
  return drawn;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "mask_times TOKENIZER [TEXTS]\n"), 2;
  const int count = argc > 2 ? std::atoi(argv[2]) : 20;
  const Tokenizer tokenizer = Tokenizer::load(argv[1]);
  const double begin = now_ms();
  const auto texts = std::make_shared<const TokenTexts>(token_texts(tokenizer, tokenizer.vocab_size() + 1));
  std::printf("{\"tokens\": %lld, \"texts_ms\": %.1f}\n", static_cast<long long>(texts->vocab), now_ms() - begin);
  std::mt19937 random(7);
  bool good = true;
  for (const Form& form : kForms)
    for (const bool drawn : {false, true}) {
      Times times;
      for (int i = 0; i < count; ++i) good = write_text(form, texts, 256, drawn, random, times) && good;
      std::ranges::sort(times.each_ms);
      const auto at = [&](double share) {
        return times.each_ms.empty()
                   ? 0
                   : times.each_ms[static_cast<size_t>(share * static_cast<double>(times.each_ms.size() - 1))];
      };
      double sum = 0;
      for (const double ms : times.each_ms) sum += ms;
      const Json line = {{"form", form.name},
                         {"way", drawn ? "drawn" : "document"},
                         {"masks", times.each_ms.size() + static_cast<size_t>(count)},
                         {"read_ms", times.read_ms / count},
                         {"first_mask_ms", times.first_ms / count},
                         {"mean_ms", times.each_ms.empty() ? 0 : sum / static_cast<double>(times.each_ms.size())},
                         {"median_ms", at(0.5)},
                         {"p99_ms", at(0.99)},
                         {"most_ms", at(1)}};
      std::printf("%s\n", line.dump().c_str());
    }
  if (!good) std::fprintf(stderr, "a document is not of its form\n");
  return good ? 0 : 1;
}
