// tern demo: a tokenizer, a small model, a kill and a resume, a measurement, some text and a page, in two minutes. It
// drives the other verbs as anybody would: as child processes, by their flags, reading their --json.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/child_process.h"
#include "apps/common.h"
#include "apps/demo_report.h"
#include "apps/demo_text.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/options.h"
#include "base/shell.h"
#include "base/system.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/units.h"

namespace tern {
namespace {

constexpr const char* kFortunes = "/usr/share/games/fortunes";
constexpr const char* kMarker = "made-by-tern-demo";

// Chosen by measurement for two minutes on two cores (dev/LOG.md). The number of steps is fixed, so that the figure
// repeats.
struct DemoSize {
  int64_t vocab = 4096, width = 128, hidden = 384, layers = 2, heads = 4;
  int64_t seq = 128, batch = 8, steps = 1000, warmup = 40, every = 200, kill_after = 640;
  const char* rate = "6e-3";
};

class Demo {
 public:
  Demo(const Options& options, Io& io)
      : options_(options), io_(io), out_(options.text("output")), json_(options.flag("json")) {}

  int run() {
    forget_settings();
    const int64_t begin = real_clock().now_ns();
    // A text that cannot be used must not cost the demo that is there.
    const std::string& own = options_.text("data");
    const DemoText text = own.empty() ? fortunes_text(io_, kFortunes) : file_text(io_, own);
    const HeldOut split = hold_out(text.text);
    prepare_folder();
    stage("text", [&] { write_text(text, split); });
    stage("tokenizer", [&] { train_tokenizer(); });
    stage("training", [&] { train_and_kill(); });
    stage("resumed training", [&] { resume(); });
    stage("measuring", [&] { measure(); });
    stage("writing", [&] { write_samples(); });
    const std::string report = path("report.html");
    write_file_atomically(io_, report, demo_html(facts_));
    if (json_)
      print_out(demo_json(facts_, report) + "\n");
    else
      say("\n" + demo_summary(facts_) +
          fmt::format("\nThe report: {} ({:.0f} s in all)\nNext: {} generate {} --prompt 'Love is' --temperature 0.8\n",
                      report, seconds_between(begin, real_clock().now_ns()), program_name(), path("run/model")));
    return 0;
  }

 private:
  std::string path(std::string_view name) const { return join_path(out_, name); }

  // For people: standard output, or standard error where that carries JSON.
  void say(const std::string& text) const {
    std::FILE* to = json_ ? stderr : stdout;
    fmt::print(to, "{}", text_for(::fileno(to), text)), std::fflush(to);
  }

  template <class Stage>
  void stage(const std::string& name, const Stage& body) {
    const int64_t begin = real_clock().now_ns();
    body();
    facts_.stage_seconds.emplace_back(name, seconds_between(begin, real_clock().now_ns()));
  }

  // Variables meant for other runs must not change this one: its figure repeats.
  static void forget_settings() {
    for (const auto& [name, value] : process_environment())
      if (name.starts_with("TERN_") && name != "TERN_ISA" && name != "TERN_LOG" && name != "TERN_THREADS")
        ::unsetenv(name.c_str());
  }

  // A demo begins anew each time; it empties only a folder that a demo made.
  void prepare_folder() {
    if (const auto info = io_.stat(out_)) {
      if (!info->is_directory)
        throw Error(ErrorKind::usage, "--output {}: is a file, expected a folder for the demo", out_);
      if (!io_.list(out_).empty() && !io_.stat(path(kMarker)))
        throw Error(ErrorKind::usage, "--output {}: holds other files, expected an empty or new folder; choose another",
                    out_);
      remove_all(io_, out_);
    }
    make_dirs(io_, out_);
    write_file_atomically(io_, path(kMarker), "tern demo made this folder and replaces it when it runs again.\n");
  }

  void write_text(const DemoText& text, const HeldOut& split) {
    write_file_atomically(io_, path("all.txt"), text.text);
    write_file_atomically(io_, path("train.txt"), split.train);
    write_file_atomically(io_, path("held-out.txt"), split.held_out);
    facts_.source = text.source;
    facts_.overstrikes = text.overstrikes;
    facts_.how_held_out = split.how;
    facts_.text_bytes = static_cast<int64_t>(text.text.size());
    facts_.train_bytes = static_cast<int64_t>(split.train.size());
    facts_.held_out_bytes = static_cast<int64_t>(split.held_out.size());
    const CpuFacts cpu = read_cpu_facts();
    facts_.machine =
        fmt::format("{}, {} of {} cores", cpu.model,
                    options_.has("threads") ? options_.integer("threads") : cpu.num_usable, cpu.num_logical);
    say(fmt::format("1/6 text: {}, {} bytes; {} held out\n", text.source, format_with_commas(facts_.text_bytes),
                    format_with_commas(facts_.held_out_bytes)));
    if (options_.text("data").empty())
      prompts_ = {"Love is", "The computer", "Q:\tWhy"};
    else
      for (size_t quarter = 1; quarter <= 3; ++quarter) prompts_.push_back(beginning(split.held_out, quarter));
  }

  // The first words of the line that begins after so many quarters of the text.
  static std::string beginning(const std::string& text, size_t quarter) {
    size_t at = text.find('\n', text.size() * quarter / 4);
    at = at == std::string::npos ? 0 : at + 1;
    std::string words;
    for (const std::string_view word : split_words(std::string_view(text).substr(at, 200))) {
      words += (words.empty() ? "" : " ") + std::string(word);
      if (words.size() >= 12) break;
    }
    return words;
  }

  void train_tokenizer() {
    say(fmt::format("2/6 tokenizer: {} byte pairs learned from the text\n", size_.vocab));
    call({"tokenize", "--train", "--vocab-size", fmt::format("{}", size_.vocab), "--input", path("train.txt"),
          "--output", path("tokenizer"), "--json"});
    const Json config = {{"architectures", {"LlamaForCausalLM"}},
                         {"model_type", "llama"},
                         {"vocab_size", size_.vocab},
                         {"hidden_size", size_.width},
                         {"intermediate_size", size_.hidden},
                         {"num_hidden_layers", size_.layers},
                         {"num_attention_heads", size_.heads},
                         {"num_key_value_heads", size_.heads},
                         {"max_position_embeddings", 1024},
                         {"hidden_act", "silu"},
                         {"rms_norm_eps", 1e-5},
                         {"rope_theta", 10000.0},
                         {"tie_word_embeddings", true},
                         {"initializer_range", 0.02},
                         {"bos_token_id", 0},
                         {"eos_token_id", 0}};
    write_file_atomically(io_, path("config.json"), dump_json(config, 2) + "\n");
    facts_.vocab_size = size_.vocab;
    facts_.steps = size_.steps;
    facts_.tokens_per_step = size_.seq * size_.batch;
  }

  std::vector<std::string> train_command() const {
    std::vector<std::string> command = {"train", path("config.json"), "--from-scratch"};
    for (const auto& [flag, name] : {std::pair{"--tokenizer", "tokenizer"},
                                     {"--data", "train.txt"},
                                     {"--valid-data", "held-out.txt"},
                                     {"--output", "run"}})
      command.insert(command.end(), {flag, path(name)});
    const std::string rest = fmt::format(
        "--seq {} --batch {} --steps {} --learning-rate {} --min-learning-rate 0 --schedule linear --warmup-steps {} "
        "--checkpoint-every {} --eval-every {} --eval-batches 20 --log-every 5 --json",
        size_.seq, size_.batch, size_.steps, size_.rate, size_.warmup, size_.every, size_.every);
    for (const std::string_view word : split_words(rest)) command.emplace_back(word);
    return command;
  }

  std::vector<MetricRow> log_rows() const {
    const std::string log = path("run/logs/metrics.jsonl");
    return io_.stat(log) ? read_metrics(log).rows : std::vector<MetricRow>();
  }

  // Asked many times a second while a run writes: only the last whole line is parsed.
  int64_t last_logged_step() const {
    const std::string log = path("run/logs/metrics.jsonl");
    if (!io_.stat(log)) return 0;
    const std::string text = io_.read(log);
    const size_t end = text.rfind('\n');
    if (end == std::string::npos || end == 0) return 0;
    const size_t begin = text.rfind('\n', end - 1) + 1;  // npos + 1 is 0
    return parse_metric_line(std::string_view(text).substr(begin, end - begin), log).step;
  }

  void train_and_kill() {
    say(fmt::format("3/6 training: {} steps of {} tokens; killed with SIGKILL once it is past step {}\n", size_.steps,
                    facts_.tokens_per_step, size_.kill_after));
    const ChildResult killed = call(train_command(), [&] { return last_logged_step() > size_.kill_after; });
    if (!killed.killed) return;
    facts_.before = log_rows();
    facts_.killed_at_step = facts_.before.empty() ? 0 : facts_.before.back().step;
  }

  void resume() {
    say(fmt::format("4/6 {}\n", facts_.killed_at_step > 0 ? "killed; the same command again"
                                                          : "it ended before it could be killed"));
    const Json result = json_of(call(train_command()));
    facts_.resumed_from_step = result.at("first_step").get<int64_t>();
    facts_.parameters = result.at("parameters").get<int64_t>();
    facts_.tokens_per_s = result.at("tokens_per_s").get<double>();
    facts_.after = log_rows();
  }

  void measure() {
    say("5/6 measuring on the held-out text\n");
    const Json result =
        json_of(call({"eval", path("run/model"), "--data", path("held-out.txt"), "--window",
                      fmt::format("{}", size_.seq), "--stride", fmt::format("{}", size_.seq / 2), "--json"}));
    facts_.bits_per_byte = result.at("bits_per_byte").get<double>();
    facts_.perplexity = result.at("perplexity").get<double>();
    if (!found_program("xz")) return;
    facts_.commands.push_back("xz -9e --stdout " + path("all.txt") + " | wc -c");
    const ChildResult xz = run_child({"xz", "-9e", "--stdout"}, {.stdin_file = path("all.txt"), .count_only = true});
    if (xz.exit_code != 0) throw Error(ErrorKind::bug, "xz -9e ended with {}", xz.exit_code);
    facts_.xz_bits_per_byte = 8.0 * static_cast<double>(xz.output_bytes) / static_cast<double>(facts_.text_bytes);
  }

  void write_samples() {
    say("6/6 writing\n");
    for (const std::string& prompt : prompts_) {
      const Json result =
          json_of(call({"generate", path("run/model"), "--prompt", prompt, "--max-tokens", "80", "--temperature", "0.7",
                        "--top-p", "0.95", "--stop", "\n%", "--seed", "1", "--json"}));
      const std::string text = result.at("samples").at(0).at("text").get<std::string>();
      facts_.samples.emplace_back(prompt, text);
      say(fmt::format("\n{}{}\n", prompt, text));
    }
  }

  // Runs a verb of this program. How it fails is how the demo fails.
  ChildResult call(std::vector<std::string> arguments, std::function<bool()> kill_when = nullptr) {
    if (options_.has("threads") && arguments[0] != "tokenize")
      arguments.insert(arguments.end(), {"--threads", fmt::format("{}", options_.integer("threads"))});
    std::string command = "tern";
    for (const std::string& argument : arguments) command += " " + shell_quoted(argument);
    facts_.commands.push_back(command);
    arguments.insert(arguments.begin(), own_program());
    const ChildResult result = run_child(arguments, {.kill_when = std::move(kill_when)});
    if (result.exit_code == 0 || result.killed) return result;
    const ErrorKind kind = kind_of_exit(result.exit_code);
    if (kind == ErrorKind::interrupted)
      throw Error(kind, "the demo was stopped during: {}; that command could go on, but tern demo begins anew",
                  command);
    throw Error(kind, "{}: ended with {}; what it said stands above", command, result.exit_code);
  }

  static Json json_of(const ChildResult& result) { return parse_json(result.output, "the verb's --json"); }

  const Options& options_;
  Io& io_;
  std::string out_;
  bool json_;
  DemoSize size_;
  DemoFacts facts_;
  std::vector<std::string> prompts_;
};

}  // namespace

int run_demo(const Options& options) { return Demo(options, real_io()).run(); }

}  // namespace tern
