// tern chat MODEL: a conversation in the terminal. Answers to standard output, talk to standard error; works on pipes.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/chat_history.h"
#include "apps/chat_input.h"
#include "apps/common.h"
#include "apps/inference_weights.h"
#include "apps/line_reader.h"
#include "apps/model_engine.h"
#include "apps/read_text.h"
#include "apps/sampling_settings.h"
#include "apps/signals.h"
#include "apps/speculation_options.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"
#include "infer/chat_prompt.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/run.h"

namespace tern {
namespace {

constexpr int64_t kChatChunk = 128, kPage = 16;
constexpr std::string_view kHelp =
    "  /help             this list\n"
    "  /system [TEXT]    show or set the system prompt (and begin anew)\n"
    "  /reset            forget the conversation, keep the system prompt\n"
    "  /undo             take back the last question and its answer\n"
    "  /retry            write the last answer anew\n"
    "  /save FILE        write the conversation as JSON, one line that tern train reads\n"
    "  /load FILE        go on with a saved conversation\n"
    "  /params [NAME X]  show or set temperature, top_k, top_p, min_p, repetition_penalty, max_tokens, seed\n"
    "  /exit             leave (so does Ctrl-D)\n"
    "  A line that ends with \\ goes on in the next; \"\"\" before and after holds many lines. Ctrl-C stops an "
    "answer.\n"
    "  A message that begins with / is written with //.\n";

void talk(std::string_view given) {
  std::fflush(stdout);
  const std::string text = text_for(STDERR_FILENO, given);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

InferenceNeeds needs_of(int64_t context, std::optional<KvType> kv, const SpeculationChoice& speculation) {
  InferenceNeeds needs{.context = context,
                       .sequences = 1,
                       .page_tokens = kPage,
                       .iteration_tokens = std::min(kChatChunk, context),
                       .logit_rows = 1,
                       .kv = kv};
  speculation.add_to(needs);
  return needs;
}

class Chat {
 public:
  Chat(const Options& options, const ModelDescription& model, const ChatPrompt& prompt, SamplingSettings settings,
       Engine& engine, int64_t context)
      : options_(options), model_(model), prompt_(prompt), engine_(engine), context_(context) {
    request_.prefix = engine.keep_prefix();
    request_.sampling = settings.sampling;
    request_.max_tokens = options.has("max-tokens") ? options.integer("max-tokens") : context;
    request_.eos = end_tokens(model);
    for (const int32_t id : prompt.turn_ends())
      if (std::find(request_.eos.begin(), request_.eos.end(), id) == request_.eos.end()) request_.eos.push_back(id);
    request_.stops = model.generation.stop_strings;
    if (options.has("system")) history_.system = options.text("system");
  }

  // Returns the exit code: on a pipe that of the first line that was refused, as nobody may be reading what is said.
  int run() {
    LineReader reader;
    ChatInput input;
    const bool terminal = ::isatty(STDIN_FILENO) == 1;
    const auto code = [&] { return interrupted_ == SIGTERM ? 128 + SIGTERM : terminal ? 0 : refused_; };
    for (;;) {
      if (terminal) talk(input.open() ? "... " : ">>> ");
      LineReader::End end;
      const std::string line = reader.next(end);
      if (end == LineReader::End::interrupt) {
        input.drop();
        talk("\n(to leave: /exit or Ctrl-D)\n");
        continue;
      }
      const bool last = end == LineReader::End::input;
      std::optional<std::string> message;
      if (!last || !line.empty()) message = input.push(line);
      if (last && !message) message = input.finish();
      if (message && !handle(std::move(*message))) return code();
      if (last) {
        if (terminal) talk("\n");
        return code();
      }
    }
  }

 private:
  // False: leave.
  bool handle(std::string message) {
    if (!is_valid_utf8(message)) {
      talk("(bytes that are not UTF-8 are read as U+FFFD)\n");
      message = make_valid_utf8(message);
    }
    bool is_question = true;
    try {
      if (const auto command = chat_command(message)) {
        is_question = command->name == "retry";
        return obey(*command);
      }
      if (history_.waits_for_answer()) history_.undo();  // its answer was refused
      history_.ask(message);
      return answer();
    } catch (const Error& error) {
      const int kind = static_cast<int>(error.kind());
      if (refused_ == 0) refused_ = kind;
      talk(fmt::format("{}\n", make_printable(error.what())));
      if (is_question && options_.flag("json"))
        print_out(dump_json({{"error", make_valid_utf8(error.what())}, {"exit_code", kind}}) + "\n");
    }
    return true;
  }

  // False: leave.
  bool answer() {
    request_.prompt = prompt_.tokens(history_.messages());
    const auto length = static_cast<int64_t>(request_.prompt.size());
    if (length >= context_) {
      history_.undo();
      throw Error(ErrorKind::usage,
                  "the conversation has {} tokens with this message, the context holds {}: the message was not taken. "
                  "/undo takes back the last turn, /reset all of them; --context may be up to {}",
                  length, context_, model_context(model_));
    }
    for (const int32_t id : request_.prompt)
      if (id >= model_.spec.vocab)
        throw Error(ErrorKind::bad_file, "the template needs token {} ('{}'), the model knows {} ids", id,
                    model_.tokenizer->piece(id), model_.spec.vocab);
    const bool json = options_.flag("json");
    RunTimings t;
    Sample sample;
    {
      const StopSignals signals;
      sample = run_request(
                   engine_, request_,
                   [&](int64_t, std::string_view text) {
                     if (!json) print_out(text);
                     return true;
                   },
                   [] { return stop_requested(); }, &t)
                   .front();
      interrupted_ = stop_requested() ? stop_signal() : 0;
      clear_stop();
    }
    ++request_.first_sequence;  // another draw next time
    history_.answer(sample.text);
    if (json) {
      Json out = {{"answer", sample.text},
                  {"finish_reason", name_of(sample.reason)},
                  {"prompt_tokens", length},
                  {"reused_tokens", sample.reused_tokens},
                  {"computed_tokens", t.prompt_tokens},
                  {"generated_tokens", t.generated_tokens},
                  {"prefill_s", t.prefill_s},
                  {"decode_s", t.decode_s}};
      if (engine_.speculation()) out["speculation"] = speculation_json(*engine_.speculation());
      print_out(dump_json(out) + "\n");
    } else {
      print_out("\n");
    }
    if (sample.reason == FinishReason::cancelled) talk("(stopped; /undo takes it back, /retry writes it anew)\n");
    if (sample.reason == FinishReason::length)
      talk(fmt::format("(cut at --max-tokens {}; /params max_tokens N)\n", request_.max_tokens));
    if (sample.reason == FinishReason::context)
      talk(fmt::format("(the context of {} tokens is full; /undo or /reset makes room)\n", context_));
    return interrupted_ != SIGTERM;
  }

  bool obey(const ChatCommand& c) {
    if (c.name == "exit" || c.name == "quit" || c.name == "bye") return false;
    if (c.name == "help" || c.name == "?") {
      talk(kHelp);
    } else if (c.name == "reset") {
      history_.clear();
      talk("(begun anew)\n");
    } else if (c.name == "system") {
      system(c.argument);
    } else if (c.name == "undo") {
      talk(history_.undo() ? fmt::format("(taken back; {} left)\n", counted(turns(), "turn"))
                           : "(nothing to take back)\n");
    } else if (c.name == "retry") {
      if (!history_.forget_answer() && !history_.waits_for_answer()) {
        talk("(there is no answer yet)\n");
        return true;
      }
      if (request_.sampling.temperature == 0)
        talk("(temperature 0: the answer will be the same; /params temperature 0.8)\n");
      return answer();
    } else if (c.name == "save" || c.name == "load") {
      if (c.argument.empty()) throw Error(ErrorKind::usage, "/{} FILE: name the file", c.name);
      if (c.name == "save") {
        write_file_atomically(real_io(), c.argument, history_.to_json());
        talk(fmt::format("(saved {})\n", counted(turns(), "turn")));
      } else {
        history_ = ChatHistory::from_json(read_text(c.argument), c.argument);
        talk(fmt::format("(loaded {})\n", counted(turns(), "turn")));
      }
    } else if (c.name == "params") {
      params(c.argument);
    } else {
      throw Error(
          ErrorKind::usage, "/{}: no such command{}; /help lists them", make_printable(c.name.substr(0, 40)),
          c.name.size() > 40
              ? ""
              : did_you_mean(c.name, {"help", "system", "reset", "undo", "retry", "save", "load", "params", "exit"},
                             "/"));
    }
    return true;
  }

  int64_t turns() const { return (static_cast<int64_t>(history_.turns().size()) + 1) / 2; }

  void system(const std::string& text) {
    if (text.empty()) {
      talk(history_.system.empty() ? "(no system prompt)\n" : fmt::format("{}\n", history_.system));
      return;
    }
    history_.system = text;
    history_.clear();
    talk("(set; begun anew)\n");
  }

  void params(const std::string& argument) {
    SamplingOptions& s = request_.sampling;
    const std::vector<std::string_view> words = split_words(argument);
    if (words.size() == 2) {
      SamplingOptions next = s;
      const std::string name = replace_all(std::string(words[0]), "-", "_"), place = "/params " + name;
      const auto real = [&] { return parse_real(words[1], place); };
      if (name == "temperature")
        next.temperature = real();
      else if (name == "top_k")
        next.top_k = parse_integer(words[1], place);
      else if (name == "top_p")
        next.top_p = real();
      else if (name == "min_p")
        next.min_p = real();
      else if (name == "repetition_penalty")
        next.repetition_penalty = real();
      else if (name == "seed")
        next.seed = static_cast<uint64_t>(parse_integer(words[1], place));
      else if (name == "max_tokens") {
        const int64_t n = parse_integer(words[1], place);
        if (n < 1) throw Error(ErrorKind::usage, "{}: {}, expected 1 or more", place, n);
        request_.max_tokens = n;
      } else {
        throw Error(
            ErrorKind::usage, "/params {}: no such setting{}", make_printable(name.substr(0, 40)),
            did_you_mean(name, {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_tokens", "seed"}));
      }
      check_sampling(next);
      s = next;
    } else if (!words.empty()) {
      throw Error(ErrorKind::usage, "/params NAME VALUE, or /params alone to see all");
    }
    talk(
        fmt::format("  temperature {}, top_k {}, top_p {}, min_p {}, repetition_penalty {}, max_tokens {}, seed {}\n"
                    "  {} of {} tokens of context held\n",
                    s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty, request_.max_tokens, s.seed,
                    engine_.prefix_tokens(*request_.prefix), context_));
  }

  const Options& options_;
  const ModelDescription& model_;
  const ChatPrompt& prompt_;
  Engine& engine_;
  int64_t context_;
  ChatHistory history_;
  Request request_;
  int interrupted_ = 0, refused_ = 0;
};

}  // namespace

int run_chat(const Options& options) {
  apply_threads(options);
  const int64_t start_ns = real_clock().now_ns();
  const ModelDescription model = described_model(options);
  refuse_encoder(model, "chat");
  tell_notes(model);
  if (!model.tokenizer)
    throw Error(ErrorKind::bad_file, "{}: there is no tokenizer; put the model's tokenizer.json beside config.json",
                model.dir.path);
  const ChatPrompt prompt(model.dir.path, options.has("chat-template") ? options.text("chat-template") : "",
                          *model.tokenizer);
  const SamplingSettings settings = sampling_settings(options, model.generation);
  SpeculationChoice speculation(options, draft_option(options, model), 1);
  const MemoryBudget budget = speculation.beside_draft(memory_budget(options), most_context(options, model));
  const std::optional<KvType> kv = kv_option(options, model.dtype);
  const auto needs_at = [&](int64_t context) {
    InferenceNeeds needs = needs_of(context, kv, speculation);
    needs.adapters = model.beside;
    return needs;
  };
  const int64_t context = choose_context(options, model, budget, needs_at);
  const InferenceNeeds needs = needs_at(context);
  const WeightsChoice choice = choose_weights(options, model, needs, budget);
  Arena arena;
  const InferenceWeights loaded(options, model, choice, context, arena);
  speculation.load(model.spec.vocab, arena);
  ModelEngine writer(model, loaded.weights(), needs,
                     {.scheduler = {.token_budget = kChatChunk, .chunk = kChatChunk, .max_running = 1},
                      .context = context,
                      .speculation = speculation.settings()},
                     arena);
  log_info("{} in {}, weights {}, context {}{}; /help lists the commands", model.dir.path,
           format_seconds(seconds_between(start_ns, real_clock().now_ns())), loaded.name(), format_with_commas(context),
           context < model_context(model) ? fmt::format(" (of {}; --context)", format_with_commas(model_context(model)))
                                          : "");
  return Chat(options, model, prompt, settings, writer.engine, context).run();
}

}  // namespace tern
