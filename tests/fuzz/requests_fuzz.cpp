// Any bytes as the body of a request, for each endpoint: refused with a message that is no book, or read within its limits; and
// what a text must satisfy then lets one be begun.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/exact_json.h"
#include "base/io.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "formats/chat/tool_templates_testing.h"
#include "formats/tokenizer/tokenizer.h"
#include "infer/chat_prompt.h"
#include "infer/constrain/constraint.h"
#include "serve/api_error.h"
#include "serve/ask.h"

namespace {

using namespace tern;

const std::string kModel = source_dir() + "/examples/novels-6m";

// As `tern serve` offers it, under a template that knows tools.
struct Offered {
  Tokenizer tokenizer = Tokenizer::load(kModel);
  std::optional<ChatPrompt> chat;
  ServedModel served;
  Offered() {
    const std::string file = "/tmp/tern-requests-fuzz-" + std::to_string(::getpid()) + ".jinja";
    write_file_atomically(real_io(), file, kHermesTemplate.text);
    chat.emplace(kModel, file, tokenizer);
    ::unlink(file.c_str());
    served.name = "m";
    served.adapters = {"one"};
    served.tokenizer = &tokenizer;
    served.vocab = tokenizer.vocab_size(), served.context = 512, served.width = 8;
    served.chat = &*chat;
    served.longest_text = 64;
    served.texts = std::make_shared<const TokenTexts>(token_texts(tokenizer, served.vocab));
    take_tool_marks(served);
  }
};

void require(bool is) {
  if (!is) std::abort();
}

// What an engine relies on; and a few tokens of what is to be written.
void check(const Asked& asked, const ServedModel& m) {
  require(!asked.prompts.empty() && asked.prompts.size() <= 128);
  for (const Request& r : asked.prompts) {
    require(!r.prompt.empty() && r.max_tokens >= 1 && std::ssize(r.prompt) + r.max_tokens <= m.context);
    for (const int32_t id : r.prompt) require(id >= 0 && id < m.vocab);
    require(r.num_samples >= 1 && r.num_samples <= 128 && r.num_likeliest >= 0 && r.num_likeliest <= 20);
    require(asked.kept >= 0 && asked.kept <= r.num_samples);
    require(r.sampling.temperature >= 0 && r.sampling.top_p > 0 && r.sampling.top_p <= 1 && r.sampling.top_k >= 0);
    require(r.adapter == kNoAdapter || r.adapter == 0);
  }
  if (!asked.prompts[0].constraint) return;
  ConstrainedText text(asked.prompts[0].constraint);
  std::vector<float> scores;
  for (int step = 0; step < 4 && !text.is_done(); ++step) {
    scores.assign(static_cast<size_t>(m.vocab), 0);
    const std::vector<int32_t> ends;
    try {
      text.mask(scores, ends);
    } catch (const Error& error) {
      require(error.kind() == ErrorKind::usage);  // no token goes on; too many states
      return;
    }
    size_t id = static_cast<size_t>(step) * 31 % scores.size();
    for (size_t tried = 0; scores[id] != 0 && tried < scores.size(); ++tried) id = (id + 1) % scores.size();
    if (scores[id] != 0) return;
    text.push(static_cast<int32_t>(id));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Offered offered;
  const ServedModel& m = offered.served;
  Json body;
  try {
    body = parse_exact_json({reinterpret_cast<const char*>(data), size}, "the request body",
                            {.max_bytes = size + 1, .max_depth = 64});
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::bad_file && std::string_view(error.what()).size() < 4000);
    return 0;
  }
  const auto guarded = [](const std::function<void()>& read) {
    try {
      read();
    } catch (const ApiError& error) {
      require(error.status >= 400 && error.status < 500 && std::string_view(error.what()).size() < 8000);
      error_body(error);
    } catch (const Error& error) { require(error.kind() == ErrorKind::usage || error.kind() == ErrorKind::bad_file); }
  };
  guarded([&] { check(read_completion(body, m, 1), m); });
  guarded([&] { check(read_chat(body, m, 1), m); });
  guarded([&] { require(read_embeddings(body, m).texts.size() <= 2048); });
  guarded([&] { dump_json(tokenize_reply(body, m)); });
  guarded([&] { dump_json(detokenize_reply(body, m)); });
  return 0;
}
