// The table of verbs and options: flags, TERN_ variables, recipe keys, help, man page and completion all come from
// here. A new row is a decision: it needs a default that works, a line of help, and its name in
// apps/options_frozen.txt.
#include "apps/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "adapt/combine.h"
#include "base/units.h"
#include "plan/plan_axes.h"
#include "planner/outer/effort.h"
#include "spec/update_rule.h"
#include "update/async_rule.h"
#include "update/outer_codec.h"
#include "update/robust.h"

namespace tern {
namespace {

using enum OptionType;

constexpr double kMaxCount = 2147483647;  // sizes that are multiplied with each other stay below 2^31

// Longer than a screen: a table, a verb a row.
std::vector<VerbSpec> make_verbs() {
  const PositionalSpec model = {
      "MODEL", "a Hugging Face model directory, a GGUF file, or a name in the local Hugging Face cache"};
  return {
      {.name = "demo",
       .summary = "Train a tokenizer and a small model, kill and resume it, measure it, let it write: two minutes",
       .examples = {{"tern demo", "on the texts that set-up installed"},
                    {"tern demo --data my.txt --output demo", "on your own text"}}},
      {.name = "train",
       .summary = "Train a model; the same command resumes after a stop or a crash",
       .positionals = {{"MODEL",
                        "a model directory, a bare config.json with --from-scratch, or a recipe (.toml, .json)"}},
       .examples = {{"tern train config.json --from-scratch --tokenizer gpt2/ --data text.txt --output run",
                     "a new model"},
                    {"tern train recipe.toml --steps 500", "a recipe, one key changed"},
                    {"tern train MODEL --data text.txt --output run --dry-run", "does it fit? nothing is written"}},
       .takes_recipe = true,
       .details = "Writes OUT/checkpoints/step-N, OUT/model (a Hugging Face directory) and OUT/logs. The first Ctrl-C "
                  "saves and "
                  "exits with 75, a second one exits at once."},
      {.name = "adapt",
       .summary = "Train a small adapter (LoRA) beside a model that stays as it is; resumes as tern train does",
       .positionals = {{"MODEL", "a model directory, a GGUF file, or a recipe (.toml, .json)"}},
       .examples = {{"tern adapt MODEL --data text.txt --output run", "rank 8 beside every matrix of the layers"},
                    {"tern adapt MODEL --rank 16 --alpha 32 --target q_proj,v_proj --data chats.jsonl --output run",
                     "fewer matrices; conversations with the loss on the answers"},
                    {"tern adapt MODEL --stream tasks.toml --method inflora --output run",
                     "tasks one after another, old ones not forgotten"},
                    {"tern generate MODEL --adapter run/adapter --prompt 'Once'", "the model with it"}},
       .takes_recipe = true,
       .details =
           "Writes OUT/adapter, a PEFT directory (adapter_config.json, adapter_model.safetensors), OUT/checkpoints "
           "and OUT/logs. The model's own weights have no gradients and no optimizer state."},
      {.name = "adapt merge",
       .summary = "An adapter becomes part of its model: a new model directory, the rounding error stated",
       .positionals = {model, {"ADAPTER", "a PEFT directory, such as run/adapter"}},
       .examples = {{"tern adapt merge MODEL run/adapter --output merged", "a model like any other"}}},
      {.name = "adapt combine",
       .summary = "Several adapters of one model become one: sums, TIES, DARE, singular values, OPCM",
       .examples =
           {{"tern adapt combine --adapter a/adapter --adapter b/adapter --weights 1,0.5 --output both",
             "the sum, exactly: its rank is the sum of theirs"},
            {"tern adapt combine --adapter a/adapter --adapter b/adapter --method ties --density 0.2 --output both",
             "the largest fifth of each where their signs agree"},
            {"tern generate MODEL --adapter both --prompt 'Once'", "the model with it"}},
       .details = "The methods are PEFT's (add_weighted_adapter) and OPCM. The model itself is not read. "
                  "docs/adapting.md says "
                  "what each computes."},
      {.name = "new",
       .summary = "Write the configuration of a new model, of the sizes given, for tern train --from-scratch",
       .examples = {{"tern new --layers 6 --width 256 --heads 4 --tokenizer tok --output small", "a Llama of 6 layers"},
                    {"tern train small --from-scratch --data text.txt --output run", "then train it"}},
       .details = "The model is of the family llama: rotary positions, RMSNorm, a gated MLP. The directory holds "
                  "config.json and "
                  "the tokenizer; its number of tokens is the model's."},
      {.name = "launch",
       .summary = "Run a verb on several ranks of this machine, each a process",
       .examples = {{"tern launch -n 2 -- train recipe.toml --output run", "two processes train one model"},
                    {"tern launch -n 4 --max-restarts 3 -- train recipe.toml --output run",
                     "after a lost rank all start again from the last checkpoint"}},
       .details =
           "The verb is train. Rank 0 talks; what the others say has their rank before it. The first Ctrl-C stops all "
           "at the same step with everything saved, a second one ends them at once. On several machines srun, mpirun "
           "and torchrun start the ranks instead (docs/parallel.md).",
       .command = "train …"},
      {.name = "generate",
       .summary = "Continue a text",
       .positionals = {model},
       .examples = {{"tern generate run/model --prompt 'Once upon a time'", "stream a continuation to the terminal"},
                    {"cat text | tern generate MODEL --samples 3 --temperature 0.8 --json",
                     "three continuations as JSON"}},
       .takes_recipe = true},
      {.name = "chat",
       .summary = "Talk with a model in the terminal",
       .positionals = {model},
       .examples = {{"tern chat MODEL", "questions and answers; /help lists the commands"},
                    {"tern chat MODEL --system 'Answer in one sentence.' --temperature 0.7", "with a system prompt"},
                    {"echo 'Why is the sky blue?' | tern chat MODEL", "one question from a pipe"}},
       .takes_recipe = true,
       .details =
           "The conversation is written in the model's own chat template. Its keys and values are kept between "
           "turns: only what is new is computed. Ctrl-C stops an answer, /exit leaves. On a pipe each line is a "
           "message; "
           "one that cannot be answered is told (--json: an object with error), and its exit code ends the verb."},
      {.name = "eval",
       .summary = "Perplexity of a text, distance to another model, or the share of questions answered right",
       .positionals = {model},
       .examples = {{"tern eval run/model --data held-out.txt", "windows that do not overlap"},
                    {"tern eval MODEL --data wiki.txt --window 2048 --stride 512", "windows that overlap"},
                    {"tern eval SMALL --data held-out.txt --reference BIG", "KL divergence and same top token"},
                    {"tern eval MODEL --task questions.jsonl --output results.jsonl",
                     "choices, or answers to write; resumable"}},
       .takes_recipe = true},
      {.name = "embed",
       .summary = "Texts as vectors, by an encoder (BERT) or a decoder, pooled as the model says",
       .positionals = {model},
       .examples = {{"tern embed MODEL --text 'a sentence'", "its numbers, on one line"},
                    {"tern embed MODEL --input texts.txt --output vectors.npy",
                     "a line of the file, a row of the array"},
                    {"tern embed MODEL --input texts.jsonl --pooling cls --normalize always --json",
                     "one object with all vectors"}},
       .takes_recipe = true,
       .details =
           "Pooling and normalizing are read from what sentence-transformers writes beside a model (modules.json, "
           "1_Pooling/config.json), and shown by tern inspect; without it an encoder's rows are averaged, and of a "
           "decoder the last is taken. "
           "A text's vector does not depend on --batch or --threads."},
      {.name = "serve",
       .summary = "A server that clients of the OpenAI interface talk to; nobody's answer depends on who else asks",
       .positionals = {model},
       .examples = {{"tern serve MODEL", "http://127.0.0.1:8080: a chat page there, the interface under /v1"},
                    {"tern serve MODEL --port 9000 --max-running 32 --context 4096", "more at once, shorter ones"},
                    {"tern serve MODEL --also vectors=ENCODER", "two models by name, if they fit beside each other"},
                    {"TERN_API_KEY=SECRET tern serve MODEL --host 0.0.0.0", "for other machines: only with a key"}},
       .takes_recipe = true,
       .details =
           "Endpoints: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /tokenize, /detokenize, "
           "/health, /ready, /metrics (Prometheus) and /metrics.json; docs/serve.md lists every field and limit. "
           "Weights, "
           "cache and activations are priced before anything is loaded. A request has the tokens and log-probabilities "
           "it would have alone. Who closes a connection frees its memory at once. SIGTERM or Ctrl-C: what is under "
           "way ends first (--drain), then exit code 0; a second signal ends at once."},
      {.name = "tokenize",
       .summary = "Text to ids and back; pack data files; train a tokenizer",
       .positionals = {{"TOKENIZER", "a model directory or tokenizer file; with --train it is left out", false}},
       .examples = {{"tern tokenize MODEL --text 'Hello world'", "the ids of a text"},
                    {"tern tokenize MODEL --pack --input text.jsonl --output data.tokens", "a token file for training"},
                    {"tern tokenize --train --vocab-size 8192 --input text.txt --output tokenizer",
                     "a new byte-level BPE"}}},
      {.name = "inspect",
       .summary = "What a model directory holds, and whether its weights are whole",
       .positionals = {model},
       .examples = {{"tern inspect run/model", "sizes, parameters, bytes; exit 4 if a file is cut short"}}},
      {.name = "export",
       .summary = "Write a model in another form: a Hugging Face directory or a GGUF file; read back and compared",
       .positionals = {model},
       .examples = {{"tern export run/model --format gguf --dtype q8_0 --output model.gguf",
                     "for llama.cpp and its kin"},
                    {"tern export model.gguf --output model", "a GGUF file as a Hugging Face directory"}},
       .takes_recipe = true},
      {.name = "quantize",
       .summary =
           "Write a model's weights in fewer bits, as a GGUF file or a directory; read back, the rounding error stated",
       .positionals = {model},
       .examples = {{"tern quantize run/model --type q4_0 --output small.gguf", "4.5 bits per weight, tables in 8.5"},
                    {"tern quantize run/model --method gptq --data text.txt --output small.gguf",
                     "the same bytes, closer"},
                    {"tern quantize run/model --method lcq --bits 3 --data text.txt --output small",
                     "3.25 bits per weight by learned tables, as a directory"},
                    {"tern eval small.gguf --data held-out.txt --reference run/model", "what that costs"}},
       .takes_recipe = true,
       .details =
           "Each block of 32 weights is rounded by itself, as the format's reference rounds it, or by --method gptq or "
           "lcq, which keep what is done in OUTPUT.partial: the same command goes on behind a kill. "
           "The layers' matrices "
           "get "
           "--type, the tables of tokens (embedding, head) --table-type, vectors stay f32. Parameters are read, "
           "written and "
           "read back one after the other. generate, chat, eval and serve run the file as it lies: --weights mapped."},
      {.name = "plan",
       .summary = "The best way to train a model on a cluster, with its proof, or to serve it; nothing is run",
       .positionals = {{"MODEL",
                        "a model directory, a config.json, or a preset such as llama-3-8b, mixtral-8x7b, t5-large"}},
       .examples = {{"tern plan llama-2-7b --hardware h100 --batch 64 --seq 4096",
                     "mesh, pipeline, recomputation, time, memory"},
                    {"tern plan MODEL --hardware cluster.toml --batch 2048 --seq 8192 --certify --output plan.json",
                     "the plan as a file, its bound as far as the audit proves it"},
                    {"tern plan llama-3-70b --inference --hardware h100 --ttft 1s --tpot 40ms",
                     "how many users at once, on which devices"},
                    {"tern plan MODEL --hardware cluster.toml --batch 2048 --seq 8192 --check plan.json",
                     "is it what it says? by code that shares nothing with the search"}},
       .takes_recipe = true,
       .details =
           "Searches every mesh (tensor, context, expert, data), pipeline and micro-batch, and for each where the "
           "layers lie, what is sharded (ZeRO), recomputed and offloaded. The answer is the least simulated step time, "
           "or "
           "carries the gap that is left. Ctrl-C ends the search with the best plan so far and its gap, exit code 130. "
           "Exit "
           "code 3: nothing fits, with the missing bytes and what would fit; 8: undecided, no plan in --max-seconds, "
           "or "
           "a bound that --certify or --check could not prove. --certify and --check do not judge a plan's binds, "
           "model_ps, model_bound_ps, restrictions and families beyond contradictions. How to write a cluster file: "
           "docs/cluster-files.md."},
      {.name = "plan calibrate",
       .summary = "Fit the cost model's constants to measured runs",
       .positionals = {{"DATA", "a table of runs (CSV): sizes, degrees, what a step took"}},
       .examples = {{"tern plan calibrate runs.csv --hardware a100-80g --software Megatron --output a100.toml",
                     "constants with their errors on rows left out"},
                    {"tern plan MODEL --hardware a100-80g --dtype f16 --calibration a100.toml --batch 64 --seq 2048",
                     "a plan with an error bar"}},
       .details = "A dozen constants with a meaning each (docs/calibration.md) are fitted, robust against rows that "
                  "nothing explains; rows whose column \"use\" says score are left out of the fit and reported."},
      {.name = "plan table",
       .summary = "Price the runs of a table, beside what they took",
       .positionals = {{"FILE", "a table of runs (CSV), as tern plan calibrate reads"}},
       .examples = {{"tern plan table runs.csv --calibration a100.toml", "predicted and measured, row by row"}},
       .details = "Each row is priced as tern plan prices a plan; docs/calibration.md names the columns."},
      {.name = "compare",
       .summary = "Two training runs side by side, as a table and as plots",
       .positionals = {{"A", "a run directory (the --output of tern train)"}, {"B", "another one"}},
       .examples = {{"tern compare run-a run-b --output compare.html", "a table here, plots in the page"}}},
      {.name = "config",
       .summary = "Show what a verb would use: every key, its value and where it comes from",
       .examples = {{"tern config show train recipe.toml --steps 500", "flags > environment > recipe > default"}},
       .details =
           "tern config show [VERB] [RECIPE] [options of that verb]. Without VERB: train. With --json: one object."},
      {.name = "doctor",
       .summary = "Check this machine: CPU, memory, limits, disk, libraries, environment, each with a fix",
       .examples = {{"tern doctor", "read the lines that start with warn"}}},
      {.name = "bench",
       .summary = "This machine's limits, and how close tern comes to them",
       .examples = {{"tern bench", "a minute; limits, and the share of them that training and inference reach"},
                    {"tern bench --output roofline.svg --json > bench.json", "the picture and all figures"},
                    {"tern bench --limits-only --disk .", "the machine alone, with the disk under this directory"}},
       .details = "Every task is timed once a round, in turn, so that a neighbour's load meets all alike. Figures that "
                  "spread by more than 10 % are shown as noise, not as a share."},
      {.name = "bench serve",
       .summary = "Put a load on a server: first token, time per token, and how much of it keeps targets",
       .positionals = {{"MODEL", "a model, served here for the time of the load; or leave it out and give --url",
                        false}},
       .examples = {{"tern bench serve MODEL --rate 4 --ttft 500ms --tpot 50ms",
                     "requests at random times, four a second; how many keep the targets"},
                    {"tern bench serve MODEL --ttft 500ms --tpot 50ms --hardware this.toml",
                     "the most users within the targets, beside what tern plan --inference foretells"},
                    {"tern bench serve --url http://127.0.0.1:8000 --users 16", "any server of the OpenAI interface"},
                    {"tern bench serve MODEL --users 16 -- --speculate ngram",
                     "what stands behind -- goes to tern serve"}},
       .details =
           "Requests are streams of /v1/completions with prompts of random tokens. With --rate they come at random "
           "times "
           "(Poisson), whether or not earlier ones have their answers; with --users each user asks again when "
           "answered. "
           "Times and lengths follow from --seed. Load goes on until the last measured request has ended; times count "
           "from when a request was due.",
       .command = "options of tern serve"},
      {.name = "profile",
       .summary = "Measure this machine into a cluster file that tern plan reads; or read what nccl-tests measured",
       .examples = {{"tern profile --output this.toml", "a minute or two; then tern plan MODEL --hardware this.toml …"},
                    {"tern profile --quick --output this.toml", "seconds: fewer shapes, fewer rounds"},
                    {"tern profile --ranks 2 --output two.toml",
                     "this machine as two ranks: then tern plan MODEL --hardware two.toml"},
                    {"tern profile --import all_reduce.log --import all_gather.log",
                     "bandwidth and latency of links, from the output of nccl-tests"}},
       .details =
           "Matrix products by shape, type and use, attention, norms, memory, disk and loopback, each by the code "
           "that trains and decodes, once a round. Every figure is written with its spread; figures that spread "
           "by more than 10 % are counted, and said to be noise where they are many. A model's own step is not "
           "run: what tern plan says of it is a prediction."},
      {.name = "help",
       .summary = "Help on a verb or a topic: exit-codes, environment, files, recipes, machines, options",
       .positionals = {{"TOPIC", "a verb or a topic", false}},
       .examples = {{"tern help train", "all options of a verb"}}},
      {.name = "version",
       .summary = "The version",
       .examples = {{"tern version --json", "as {\"version\": …}, for scripts"}}},
      {.name = "completion",
       .summary = "A completion script for bash, zsh or fish",
       .positionals = {{"SHELL", "bash, zsh or fish"}},
       .examples = {{"source <(tern completion bash)", "complete verbs and options in this shell"}}},
      {.name = "man", .summary = "The manual page, in roff", .examples = {{"tern man | man -l -", "read it"}}},
  };
}

std::vector<std::string_view> rule_names() {
  std::vector<std::string_view> names;
  for (const UpdateRule rule : kUpdateRules) names.push_back(name_of(rule));
  return names;
}

// An option of update rules, and which rules read it with which default.
std::string_view rule_help(const RuleOption& o) {
  static std::map<std::string_view, std::string> texts;
  return texts.try_emplace(o.name, fmt::format("{}: {}", o.help, defaults_of(o.name))).first->second;
}

std::string_view clip_help() {
  static const std::string help = [] {
    std::string others;
    for (const UpdateRule rule : kUpdateRules)
      if (const std::string_view clip = row_of(rule).clip; clip != "1.0")
        others += fmt::format("; {} for {}", clip.empty() ? "none" : clip, name_of(rule));
    return fmt::format("largest gradient norm, 0 for no clipping: 1.0{}", others);
  }();
  return help;
}

// What the update rules read, each name once, behind --optimizer.
void add_rule_options(std::vector<OptionSpec>& all) {
  std::vector<OptionSpec> found;
  for (const UpdateRule rule : kUpdateRules)
    for (const RuleOption& o : row_of(rule).options)
      if (std::ranges::count(found, o.name, &OptionSpec::name) == 0)
        found.push_back({.name = o.name,
                         .verbs = "train adapt",
                         .type = OptionType::real,
                         .unit = "X",
                         .help = rule_help(o),
                         .min = 0,
                         .max = o.max});
  const auto optimizer = std::ranges::find(all, std::string_view("optimizer"), &OptionSpec::name);
  all.insert(optimizer + 1, found.begin(), found.end());
}

// The help of lists that tables elsewhere hold.
std::string_view schedules_help() {
  static const std::string help = [] {
    std::string text;
    for (const PipelineSchedule s : kPipelineSchedules)
      text += fmt::format("{}{}", text.empty() ? "of " : ",", name_of(s));
    return text + "; not given: all";
  }();
  return help;
}

std::vector<std::string_view> efforts() {
  std::vector<std::string_view> names;
  for (const EffortLimits& e : kEffortLimits) names.push_back(e.name);
  return names;
}

std::string_view effort_help() {
  static const std::string help = [] {
    std::string text = "how far the search goes before it stops with a gap:";
    for (const EffortLimits& e : kEffortLimits)
      text += fmt::format("{} {} {} and {} GB", &e == kEffortLimits.data() ? "" : ",", e.name,
                          format_seconds(e.seconds), e.memory_bytes / 1'000'000'000);
    return text + "; seconds are --max-seconds where that is given";
  }();
  return help;
}

std::string_view fix_help() {
  static const std::string help = [] {
    std::string text = "give some axes and search the rest: tp=8,pp=4,dp=2,schedule=1f1b …; axes:";
    for (const PlanAxis& a : plan_axes()) text += fmt::format(" {}", a.name);
    return text + " layers (even: equal blocks per stage, one strategy); all given: one configuration is priced";
  }();
  return help;
}

std::vector<std::string_view> schedules_without_chunks() {
  std::vector<std::string_view> names;
  for (const PipelineScheduleTraits& t : kPipelineScheduleTable)
    if (t.chunks == ChunkRule::one) names.push_back(t.name);
  return names;
}

// One row, one line.
// clang-format off
// Longer than a screen: a table.
std::vector<OptionSpec> make_options() {
  std::vector<OptionSpec> all = {
      // What goes in and out.
      {.name = "data", .verbs = "train adapt", .type = path, .unit = "PATH", .help = "training data: text, JSONL, a token file, a folder of texts, or a mixture: a .toml file of [[source]] with data = PATH and share = NUMBER", .env = "TERN_DATA_FILE"},
      {.name = "data", .verbs = "eval", .type = path, .unit = "FILE", .help = "text, JSONL or token file to measure on", .env = "TERN_DATA_FILE"},
      {.name = "data", .verbs = "quantize", .type = path, .unit = "FILE", .help = "--method gptq, lcq: a text like those that the model will read", .env = "TERN_DATA_FILE"},
      {.name = "data", .verbs = "demo", .type = path, .unit = "FILE", .help = "your own text instead of the fortunes", .env = "TERN_DATA_FILE"},
      {.name = "valid-data", .verbs = "train adapt", .type = path, .unit = "FILE", .help = "held-out data for evaluation during training"},
      {.name = "output", .verbs = "train adapt", .type = path, .unit = "DIR", .help = "run directory; an unfinished run in it goes on"},
      {.name = "output", .verbs = "demo", .type = path, .fallback = "tern-demo", .unit = "DIR", .help = "where the demo works and leaves its report"},
      {.name = "output", .verbs = "tokenize", .type = path, .unit = "PATH", .help = "write here: a token file (--pack), a tokenizer directory (--train), else ids or text"},
      {.name = "output", .verbs = "compare", .type = path, .unit = "FILE", .help = "write an HTML page with plots"},
      {.name = "output", .verbs = "adapt-merge", .type = path, .unit = "DIR", .help = "the model directory to write; must not be there yet"},
      {.name = "output", .verbs = "adapt-combine", .type = path, .unit = "DIR", .help = "the PEFT directory to write; must not be there yet"},
      {.name = "output", .verbs = "export", .type = path, .unit = "PATH", .help = "the directory, or the .gguf file, to write; must not be there yet"},
      {.name = "output", .verbs = "quantize", .type = path, .unit = "FILE", .help = "the .gguf file to write, or the directory, in types of tern's own too; must not be there yet"},
      {.name = "method", .verbs = "quantize", .type = choice, .fallback = "rtn", .help = "rtn: every block by itself; gptq: scales searched, and errors taken back by later columns, for the inputs that --data gives; lcq: gptq with tables learned for each matrix; loftq: codes, and in OUT/adapter an adapter that makes up for their error as far as its rank can", .choices = {"rtn", "gptq", "lcq", "loftq"}},
      {.name = "rank", .verbs = "quantize", .type = integer, .fallback = "8", .unit = "R", .help = "--method loftq: rank of the adapter of each matrix", .min = 1, .max = 65536},
      {.name = "rounds", .verbs = "quantize", .type = integer, .fallback = "5", .unit = "N", .help = "--method loftq: how often what the adapter does not hold is coded again", .min = 1, .max = 1000},
      {.name = "report", .verbs = "quantize", .type = path, .unit = "FILE", .help = "write what it cost here, by the name's end as .txt, .json or .html: KL divergence, perplexity, bits per byte and same top token on each --valid-data, every tensor's error, bytes"},
      {.name = "valid-data", .verbs = "quantize", .type = list, .unit = "FILE", .help = "of --report: a text to measure on, which calibration should not have seen; may be given several times"},
      {.name = "bits", .verbs = "quantize", .type = choice, .fallback = "4", .help = "--method lcq: bits of a code, 0.25 more per weight say table and scale; mixed: each matrix as many (2, 3, 4, or 6 and 8.5 in blocks of GGUF's) as it is worth by what it costs the predictions on --data", .choices = {"2", "3", "4", "mixed"}},
      {.name = "target-bytes", .verbs = "quantize", .type = bytes, .unit = "SIZE", .help = "--bits mixed: what all weights may take together, met within 1 %, such as 40MiB", .min = 1},
      {.name = "sensitivity", .verbs = "quantize", .type = path, .unit = "DIR", .help = "--bits mixed: keep here what each matrix costs, to be read again for other --target-bytes of the same model, text and types; not given: in OUTPUT.partial, until the end"},
      {.name = "calibration-tokens", .verbs = "quantize", .type = integer, .fallback = "32768", .unit = "N", .help = "--method gptq, lcq: tokens of --data to run through the layers, at most", .min = 1, .max = 1e9},
      {.name = "type", .verbs = "quantize", .type = choice, .fallback = "q4_0", .help = "of the layers' matrices; u4, u3, u2: an f32 scale and offset per 64, in a directory", .choices = {"q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "u4", "u3", "u2"}},
      {.name = "table-type", .verbs = "quantize", .type = choice, .fallback = "q8_0", .help = "of the tables of tokens: the embedding and the head", .choices = {"f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"}},
      {.name = "format", .verbs = "export", .type = choice, .fallback = "hf", .help = "a Hugging Face directory, or one GGUF file", .choices = {"hf", "gguf"}},
      {.name = "shard-size", .verbs = "export adapt-merge", .type = bytes, .fallback = "5GB", .unit = "SIZE", .help = "of a directory: largest weights file; more is parted into shards", .min = 1},
      {.name = "tokenizer", .verbs = "train adapt", .type = path, .unit = "PATH", .help = "model directory or tokenizer file; not given: MODEL's own"},
      {.name = "output", .verbs = "new", .type = path, .unit = "DIR", .help = "the directory to write; must not be there yet"},
      {.name = "layers", .verbs = "new", .type = integer, .fallback = "6", .unit = "N", .help = "layers, each of attention and an MLP", .min = 1, .max = 65536},
      {.name = "width", .verbs = "new", .type = integer, .fallback = "256", .unit = "N", .help = "numbers that a token has between layers (hidden_size)", .min = 2, .max = 1 << 20},
      {.name = "heads", .verbs = "new", .type = integer, .fallback = "4", .unit = "N", .help = "heads of attention; they divide --width", .min = 1, .max = 65536},
      {.name = "kv-heads", .verbs = "new", .type = integer, .unit = "N", .help = "heads of keys and values, fewer for a smaller cache; not given: as --heads", .min = 1, .max = 65536},
      {.name = "mlp-width", .verbs = "new", .type = integer, .unit = "N", .help = "width inside the MLP (intermediate_size); not given: 8/3 of --width, rounded up", .min = 1, .max = 1 << 24},
      {.name = "context", .verbs = "new", .type = integer, .fallback = "1024", .unit = "TOKENS", .help = "longest sequence that the model declares (max_position_embeddings)", .min = 1, .max = kMaxCount},
      {.name = "tokenizer", .verbs = "new", .type = path, .unit = "PATH", .help = "tokenizer directory or file, copied beside the configuration"},
      {.name = "vocab-size", .verbs = "new", .type = integer, .unit = "N", .help = "instead of --tokenizer: number of tokens", .min = 1, .max = 1 << 26},
      {.name = "tie", .verbs = "new", .type = toggle, .fallback = "on", .help = "one table for the embedding and the head"},
      {.name = "from-scratch", .verbs = "train", .type = flag, .help = "start from random weights: MODEL is a bare config.json or a directory without weights"},

      // adapt: what is trained.
      {.name = "method", .verbs = "adapt", .type = choice, .fallback = "lora", .help = "lora: scale alpha/rank; rslora: alpha/√rank; qalora: lora whose A reads means of 64 inputs, so that adapt merge --offsets loses nothing; dora: lora, and the length of each row learned by itself; dpo: lora from pairs of answers, JSONL lines of prompt, chosen and rejected; with --stream seqlora: one adapter learns on; inflora: each task learns where old inputs do not feel it; gainlora: so too, in branches that stay apart, each weighed by a gate that reads the prompt; olora, ewc, replay, multitask: docs/continual.md", .choices = {"lora", "rslora", "qalora", "dora", "dpo", "seqlora", "inflora", "gainlora", "olora", "ewc", "replay", "multitask"}},
      {.name = "adapter", .verbs = "adapt-combine", .type = list, .unit = "DIR", .help = "a PEFT directory (LoRA), such as run/adapter; given once for each"},
      {.name = "shares", .verbs = "adapt-combine", .type = list, .unit = "NUMBERS", .help = "how much each adapter counts, such as 1,0.5; may be negative; not given: 1 each"},
      {.name = "method", .verbs = "adapt-combine", .type = choice, .fallback = "cat", .help = "cat: the sum, by factors beside each other; svd: the sum, cut to --rank; linear: A and B summed each by itself; ties: numbers that agree in sign; magnitude_prune, dare_linear: the largest numbers, or random ones; NAME_svd: of the products B·A, not of A and B; opcm: one after the other, each without what lies in the directions of those before", .choices = combination_names()},
      {.name = "density", .verbs = "adapt-combine", .type = real, .unit = "SHARE", .help = "of methods that leave numbers out: share of each adapter's that stay", .min = 0, .max = 1, .above_min = true},
      {.name = "majority-sign", .verbs = "adapt-combine", .type = choice, .fallback = "total", .help = "of ties: the sign of the sum, or the more frequent one", .choices = {"total", "frequency"}},
      {.name = "rank", .verbs = "adapt-combine", .type = integer, .unit = "R", .help = "of methods by singular values: rank of the result; not given: the largest among the adapters", .min = 1, .max = 65536},
      {.name = "seed", .verbs = "adapt-combine", .type = integer, .fallback = "1", .unit = "N", .help = "of the numbers that dare leaves out", .min = 0},
      {.name = "stream", .verbs = "adapt", .type = path, .unit = "TASKS.toml", .help = "learn these tasks one after another; all are judged after each"},
      {.name = "inflora-mode", .verbs = "adapt", .type = choice, .fallback = "code", .help = "what is remembered of inputs, as InfLoRA's authors' code has it or as their paper", .choices = {"code", "paper"}},
      {.name = "energy", .verbs = "adapt", .type = real, .fallback = "0.95", .unit = "SHARE", .help = "--method inflora, gainlora: share of the first task's inputs that is protected; rises to 1 over the stream", .min = 0, .max = 1},
      {.name = "statistics-windows", .verbs = "adapt", .type = integer, .fallback = "256", .unit = "N", .help = "--method inflora, gainlora, ewc: windows of each task's data that are looked at before and after it, at most", .min = 1, .max = kMaxCount},
      {.name = "gate-width", .verbs = "adapt", .type = integer, .fallback = "100", .unit = "N", .help = "--method gainlora: hidden numbers of a gate", .min = 1, .max = 65536},
      {.name = "gate-tokens", .verbs = "adapt", .type = integer, .fallback = "32", .unit = "N", .help = "--method gainlora: tokens of a text's window that gates read; they are learned and scored without what they open (of conversations what comes before the answer)", .min = 1, .max = kMaxCount},
      {.name = "gate-updates", .verbs = "adapt", .type = choice, .fallback = "exact", .help = "--method gainlora: exact: a gate's steps change nothing of what it says of earlier tasks' inputs; rescaled: rows then get their lengths back, as the authors' code does", .choices = {"exact", "rescaled"}},
      {.name = "penalty", .verbs = "adapt", .type = real, .unit = "WEIGHT", .help = "--method olora, ewc: weight of what is added to the loss; not given: 0.5, 1000", .min = 0, .max = 1e12},
      {.name = "replay-share", .verbs = "adapt", .type = real, .fallback = "0.01", .unit = "SHARE", .help = "--method replay: share of each task's data that is kept and learned again", .min = 0, .max = 1},
      {.name = "references", .verbs = "adapt", .type = flag, .help = "--stream: also learn each task alone, and all together"},
      {.name = "offsets", .verbs = "adapt-merge", .type = flag, .help = "a base in codes (u4, u3, u2, q4_1, q5_1) stays as it is but for the offsets of its groups, which take a pooled adapter (--method qalora) whole"},
      {.name = "rank", .verbs = "adapt", .type = integer, .fallback = "8", .unit = "R", .help = "rank of each adapter", .min = 1, .max = 65536},
      {.name = "alpha", .verbs = "adapt", .type = real, .unit = "A", .help = "an adapter counts alpha/rank times; not given: twice the rank (inflora, gainlora: the rank)", .min = 0, .max = 1e6},
      {.name = "adapter-dropout", .verbs = "adapt", .type = real, .fallback = "0", .unit = "SHARE", .help = "share of the inputs of A that a step leaves out, drawn by counted numbers: the same after a resume and with --recompute", .min = 0, .max = 1},
      {.name = "dpo-beta", .verbs = "adapt", .type = real, .fallback = "0.1", .unit = "BETA", .help = "of --method dpo: how fast a pair's loss falls with the gain of the chosen answer over the rejected one, both in log-probability beyond the model's without its adapter", .min = 0, .max = 1e6},
      {.name = "lora-plus-ratio", .verbs = "adapt", .type = real, .fallback = "1", .unit = "RATIO", .help = "B learns at RATIO times the rate of A (LoRA+, whose authors suggest 16)", .min = 0, .max = 1e6},
      {.name = "target", .verbs = "adapt", .type = list, .unit = "MODULES", .help = "names of matrices as the model's files have them, such as q_proj,v_proj; not given: all of the layers"},
      {.name = "begin", .verbs = "adapt", .type = path, .unit = "DIR", .help = "a PEFT directory whose adapter is trained on, with its rank, alpha and targets"},
      {.name = "init", .verbs = "adapt", .type = choice, .fallback = "true", .help = "how A begins (B begins with zeros): true: uniform within 1/√in; gaussian: normal, 1/rank; and how both begin: orthogonal: in directions of which A has one half and B the other; pissa: as the leading singular directions of the weight, which then stays without them; olora: as the first columns and rows of its orthogonal factors", .choices = {"true", "gaussian", "orthogonal", "pissa", "olora"}},

      // train: the amount and the rate.
      {.name = "seq", .verbs = "train adapt", .type = integer, .fallback = "256", .unit = "TOKENS", .help = "length of a training sequence", .min = 1, .max = kMaxCount},
      {.name = "context", .verbs = "train", .type = integer, .unit = "TOKENS", .help = "longest sequence the trained model declares (max_position_embeddings); not given: config.json's, and a longer --seq is refused", .min = 1, .max = kMaxCount},
      {.name = "batch", .verbs = "train adapt", .type = integer, .fallback = "32", .unit = "SEQUENCES", .help = "sequences per step", .min = 1, .max = kMaxCount},
      {.name = "batch", .verbs = "eval", .type = integer, .fallback = "8", .unit = "WINDOWS", .help = "windows, choices or answers at a time; changes speed and memory, not the result", .min = 1, .max = kMaxCount},
      {.name = "micro-batch", .verbs = "train adapt", .type = integer, .unit = "SEQUENCES", .help = "sequences at a time, gradients add up; not given: --batch, or a group of it (--sum-groups)", .min = 1, .max = kMaxCount},
      {.name = "steps", .verbs = "train adapt", .type = integer, .fallback = "1000", .unit = "N", .help = "optimizer steps of the whole run", .min = 1, .max = 1e12},
      {.name = "learning-rate", .verbs = "train adapt", .type = real, .fallback = "3e-4", .unit = "RATE", .help = "peak learning rate", .min = 0, .max = 1e6},
      {.name = "min-learning-rate", .verbs = "train adapt", .type = real, .unit = "RATE", .help = "where the schedule ends; not given: a tenth of the peak", .min = 0, .max = 1e6},
      {.name = "schedule", .verbs = "train adapt", .type = choice, .fallback = "cosine", .help = "course of the rate after the warm-up", .choices = {"cosine", "linear", "constant", "wsd"}},
      {.name = "warmup-steps", .verbs = "train adapt", .type = integer, .fallback = "100", .unit = "N", .help = "steps over which the rate rises linearly from 0; of a run shorter than 1,000 steps a tenth of them, if it is not given", .min = 0, .max = 1e12},
      {.name = "decay-steps", .verbs = "train adapt", .type = integer, .unit = "N", .help = "length of the final fall of schedule wsd; not given: a tenth of --steps", .min = 0, .max = 1e12},

      // train: the update.
      {.name = "optimizer", .verbs = "train adapt", .type = choice, .fallback = "adamw", .help = "update rule", .choices = rule_names()},
      {.name = "clip", .verbs = "train adapt", .type = real, .unit = "NORM", .help = clip_help(), .min = 0, .max = 1e30},

      // train: how it is computed.
      {.name = "dtype", .verbs = "train adapt", .type = choice, .fallback = "f32", .help = "type of weights and activations in the passes; master weights are f32 or wider", .choices = {"f32", "bf16", "f64"}},
      {.name = "dtype", .verbs = "generate chat eval embed serve", .type = choice, .help = "type to compute in; not given: the one the model was saved in (f16: f32)", .choices = {"f32", "bf16", "f64"}},
      {.name = "dtype", .verbs = "adapt-merge", .type = choice, .help = "type of the merged weights; not given: the model's own", .choices = {"f32", "bf16", "f16"}},
      {.name = "dtype", .verbs = "export", .type = choice, .help = "type of the written weights; not given: the one the model is kept in; q8_0: --format gguf only", .choices = {"f32", "f16", "bf16", "q8_0"}},
      {.name = "recompute", .verbs = "train adapt", .type = choice, .fallback = "none", .help = "recompute activations in the backward pass instead of keeping them", .choices = {"none", "attention", "full"}},
      {.name = "update-in-backward", .verbs = "train", .type = flag, .help = "update each layer as soon as the backward pass has its gradients, which then end: the same bits in less memory; needs --clip 0, one micro-batch to a step and one rank"},
      {.name = "multiply", .verbs = "train adapt", .type = choice, .fallback = "fast", .help = "who multiplies in training: fast library, or tern's own exact kernels", .choices = {"fast", "exact"}},
      {.name = "plan", .verbs = "train", .type = path, .unit = "FILE", .help = "a plan that tern plan wrote, for one device or for data parallelism: its batch, micro-batch, sequence length, type, optimizer and each layer's recomputation"},
      {.name = "shuffle", .verbs = "train adapt", .type = toggle, .fallback = "on", .help = "draw sequences in random order, anew each epoch"},
      {.name = "seed", .verbs = "train adapt", .type = integer, .fallback = "1", .unit = "N", .help = "of initial weights and of the order of data", .min = 0},
      {.name = "seed", .verbs = "generate chat", .type = integer, .fallback = "1", .unit = "N", .help = "of the random draws", .min = 0},
      {.name = "ranks", .verbs = "train", .type = integer, .fallback = "1", .unit = "N", .help = "train on so many ranks, threads of this process: each has a copy of the model and an equal share of every step's micro-batches; --threads is of each; with --plan as many as it has devices", .min = 1, .max = 1024},
      {.name = "sum-groups", .verbs = "train", .type = integer, .unit = "N", .help = "sum gradients in so many groups of micro-batches, then the groups in a tree: ranks of which each has 1, 2, 4, … groups give the same bits; not given: --ranks", .min = 1, .max = 1 << 20},
      {.name = "context-parallel", .verbs = "train", .type = integer, .fallback = "1", .unit = "N", .help = "ranks that share out the rows of each micro-batch, and in attention the heads; N times --tensor-parallel divides --ranks", .min = 1, .max = 1024},
      {.name = "tensor-parallel", .verbs = "train", .type = integer, .fallback = "1", .unit = "N", .help = "ranks that share out each matrix, attention heads and the vocabulary, and the rows between layers; N divides --ranks, the rest are replicas", .min = 1, .max = 1024},
      {.name = "zero", .verbs = "train", .type = text, .fallback = "0", .unit = "N", .help = "ZeRO: what --ranks share out instead of keeping a copy each: 0 nothing, 1 the optimizer's state, 2 gradients too, summed over ranks with each micro-batch, 3 weights too, which come together for each pass through a layer; one rank has all of it"},
      {.name = "aggregator", .verbs = "train", .type = choice, .unit = "RULE", .help = "how the ranks' gradients become one where some ranks may send anything; not given: they are summed", .choices = {std::begin(kAggregatorNames), std::end(kAggregatorNames)}},
      {.name = "byzantine", .verbs = "train", .type = integer, .fallback = "0", .unit = "F", .help = "of --aggregator: ranks that may send anything", .min = 0, .max = 1024},
      {.name = "mix", .verbs = "train", .type = choice, .fallback = "none", .help = "of --aggregator: aggregate means of the ranks' vectors in their place, of each one's nearest (all but --byzantine) or of random pairs", .choices = {std::begin(kMixingNames), std::end(kMixingNames)}},
      {.name = "local-momentum", .verbs = "train", .type = real, .fallback = "0", .unit = "BETA", .help = "of --aggregator: each rank averages its gradients over steps before it sends them, u = BETA u + (1 - BETA) g", .min = 0, .max = 1},
      {.name = "clip-radius", .verbs = "train", .type = real, .fallback = "1", .unit = "NORM", .help = "of --aggregator centered-clipping: how far from the last step's aggregate a rank's vector counts", .min = 0, .max = 1e30},
      {.name = "attack", .verbs = "train", .type = choice, .fallback = "none", .help = "of --aggregator, for studies: what the last ranks do to the run", .choices = {std::begin(kAttackNames), std::end(kAttackNames)}},
      {.name = "attackers", .verbs = "train", .type = integer, .unit = "N", .help = "of --attack: how many ranks do; not given: --byzantine", .min = 1, .max = 1023},
      {.name = "outer", .verbs = "train", .type = choice, .unit = "KIND", .help = "ranks train alone, each on its share of the batch, and rarely average: local-sgd takes the average, diloco takes an outer step towards it with Nesterov's momentum; not given: they sum gradients at each step", .choices = {"local-sgd", "diloco"}},
      {.name = "outer-every", .verbs = "train", .type = integer, .fallback = "500", .unit = "N", .help = "of --outer: steps of their own between two averages", .min = 1, .max = 1e12},
      {.name = "outer-rate", .verbs = "train", .type = real, .fallback = "0.7", .unit = "X", .help = "of --outer diloco: how far the model in common goes towards the average", .min = 0, .max = 1e6},
      {.name = "outer-momentum", .verbs = "train", .type = real, .fallback = "0.9", .unit = "X", .help = "of --outer diloco: what is kept of the outer velocity", .min = 0, .max = 1},
      {.name = "outer-fragments", .verbs = "train", .type = integer, .fallback = "1", .unit = "N", .help = "of --outer diloco: average the layers in so many groups, each at another step", .min = 1, .max = 100000},
      {.name = "outer-delay", .verbs = "train", .type = integer, .fallback = "0", .unit = "N", .help = "of --outer diloco: steps after which an average counts", .min = 0, .max = 1e12},
      {.name = "outer-mix", .verbs = "train", .type = real, .fallback = "0", .unit = "X", .help = "of --outer diloco: the share of its own weights that a rank keeps beside the model in common", .min = 0, .max = 1},
      {.name = "outer-codec", .verbs = "train", .type = choice, .fallback = "none", .help = "of --outer: send whole numbers of 8 or 4 bits with a scale for 128 of them; what they leave out is added the next time", .choices = {std::begin(kOuterCodecNames), std::end(kOuterCodecNames)}},
      {.name = "async", .verbs = "train", .type = flag, .help = "a server takes the gradients of --workers one by one, as they arrive; a step is one gradient of --batch sequences; --optimizer is sgd"},
      {.name = "workers", .verbs = "train", .type = integer, .unit = "N", .help = "of --async: workers, threads of this process beside the server; --threads is of each", .min = 1, .max = 1023},
      {.name = "async-rule", .verbs = "train", .type = choice, .fallback = "ormo", .help = "of --async: what a late gradient does to the momentum: no momentum at all, what it would do on time, or (ormo, ormo-da) what it would have done when it was due", .choices = {std::begin(kAsyncRuleNames), std::end(kAsyncRuleNames)}},
      {.name = "replay", .verbs = "train", .type = path, .unit = "FILE", .help = "of --async: take gradients in the order of this file, such as the arrivals.txt of a run: the same bits"},
      {.name = "ranks", .verbs = "launch", .type = integer, .unit = "N", .help = "processes to start, one rank each", .min = 1, .max = 1024, .letter = 'n'},
      {.name = "comm-timeout", .verbs = "train launch", .type = seconds, .fallback = "30s", .unit = "TIME", .help = "ranks that are processes: one without a sign of life for so long is lost, and the run ends with 5; of srun, mpirun and torchrun, rank 0's counts", .min = 0.1, .max = 86400},
      {.name = "max-restarts", .verbs = "launch", .type = integer, .fallback = "0", .unit = "N", .help = "start all ranks again, from the last checkpoint, after a rank was lost: at most so often", .min = 0, .max = 1e6},
      {.name = "min-ranks", .verbs = "launch", .type = integer, .unit = "N", .help = "of --max-restarts: after a loss go on with half the ranks, down to so many; not given: with as many as before", .min = 1, .max = 1024},
      {.name = "threads", .verbs = "train adapt generate chat eval embed serve export quantize plan demo bench profile adapt-merge adapt-combine", .type = integer, .unit = "N", .help = "compute threads; not given: the cores this process may use", .min = 1, .max = 4096},
      {.name = "memory", .verbs = "train adapt tokenize generate chat eval embed serve export quantize bench profile adapt-merge", .type = bytes, .unit = "SIZE", .help = "most memory to use, such as 4GiB; not given: what the machine has free", .min = 1},

      // train: state on disk, and what is told.
      {.name = "checkpoint-every", .verbs = "train adapt", .type = integer, .fallback = "100", .unit = "STEPS", .help = "save a checkpoint every so many steps; 0: only at the end", .min = 0, .max = 1e12},
      {.name = "keep-checkpoints", .verbs = "train adapt", .type = integer, .fallback = "2", .unit = "N", .help = "newest checkpoints to keep", .min = 1, .max = kMaxCount},
      {.name = "resume", .verbs = "train adapt", .type = choice, .fallback = "auto", .help = "go on from the newest valid checkpoint: if there is one, only if there is one, or never", .choices = {"auto", "must", "never"}},
      {.name = "eval-every", .verbs = "train adapt", .type = integer, .fallback = "100", .unit = "STEPS", .help = "evaluate on --valid-data every so many steps; 0: only at the end", .min = 0, .max = 1e12},
      {.name = "eval-batches", .verbs = "train adapt", .type = integer, .fallback = "20", .unit = "N", .help = "batches per evaluation during training", .min = 1, .max = kMaxCount},
      {.name = "keep-best", .verbs = "train adapt", .type = flag, .help = "whenever the held-out loss is the lowest so far, write the model to OUT/best as well"},
      {.name = "patience", .verbs = "train adapt", .type = integer, .unit = "EVALUATIONS", .help = "end the run when so many evaluations in a row were not better than the best one; not given: it goes to its last step", .min = 1, .max = kMaxCount},
      {.name = "log-every", .verbs = "train adapt", .type = integer, .fallback = "10", .unit = "STEPS", .help = "write a log row every so many steps", .min = 1, .max = 1e12},
      {.name = "max-seconds", .verbs = "train adapt", .type = seconds, .unit = "TIME", .help = "save and stop with 75 after this time, such as 50m", .min = 0},
      {.name = "dry-run", .verbs = "train adapt", .type = flag, .help = "check and price everything, write and train nothing"},
      {.name = "trace", .verbs = "train adapt", .type = path, .unit = "FILE", .help = "write a Chrome trace of one step"},

      // generate.
      {.name = "adapter", .verbs = "generate chat eval", .type = path, .unit = "DIR", .help = "a PEFT directory (LoRA): the model answers with this adapter"},
      {.name = "adapter", .verbs = "serve", .type = list, .unit = "NAME=DIR", .help = "a PEFT directory (LoRA) beside the model: requests for the model NAME get its answers, in one batch with all others; may be given several times"},
      {.name = "prompt", .verbs = "generate", .type = text, .unit = "TEXT", .help = "the text to continue"},
      {.name = "prompt-file", .verbs = "generate", .type = path, .unit = "FILE", .help = "read the text from a file; -: standard input"},
      {.name = "prompts", .verbs = "generate", .type = path, .unit = "FILE.jsonl", .help = "continue each of many texts, several at a time: one JSON text a line, or {\"prompt\": …, \"id\": …, \"max_tokens\": …}; answers are JSON lines in the same order, the same whatever --batch is; -: standard input"},
      {.name = "batch", .verbs = "generate", .type = integer, .unit = "PROMPTS", .help = "of --prompts: most at a time; changes speed and memory, not the result; not given: up to 64 that fit, and where weights stream up to 256, for the fewest bytes read a token", .min = 1, .max = 65536},
      {.name = "output", .verbs = "generate", .type = path, .unit = "FILE", .help = "of --prompts: write each answer here as it comes; the same command goes on from it; not given: standard output"},
      {.name = "max-tokens", .verbs = "generate", .type = integer, .fallback = "128", .unit = "TOKENS", .help = "most tokens to write", .min = 1, .max = kMaxCount},
      {.name = "max-tokens", .verbs = "eval", .type = integer, .unit = "TOKENS", .help = "measure only so many tokens from the start; of --task: most tokens to write for an answer, not given: 256", .min = 1, .max = 1e12},
      {.name = "temperature", .verbs = "generate chat", .type = real, .unit = "X", .help = "0: always the likeliest token; not given: generation_config.json, else 0", .min = 0, .max = 1e4},
      {.name = "top-k", .verbs = "generate chat", .type = integer, .unit = "N", .help = "draw from the N likeliest tokens; 0: from all; not given: generation_config.json", .min = 0, .max = kMaxCount},
      {.name = "top-p", .verbs = "generate chat", .type = real, .unit = "P", .help = "draw from the likeliest tokens that together have this probability", .min = 0, .max = 1, .above_min = true},
      {.name = "min-p", .verbs = "generate chat", .type = real, .unit = "P", .help = "drop tokens below this share of the likeliest one's probability", .min = 0, .max = 1},
      {.name = "repetition-penalty", .verbs = "generate chat", .type = real, .unit = "X", .help = "divide positive and multiply negative scores of seen tokens by this; 1: none", .min = 0, .max = 1e4, .above_min = true},
      {.name = "presence-penalty", .verbs = "generate chat", .type = real, .fallback = "0", .unit = "X", .help = "subtract from the score of every token written before", .min = -1e4, .max = 1e4},
      {.name = "frequency-penalty", .verbs = "generate chat", .type = real, .fallback = "0", .unit = "X", .help = "subtract so much for each time a token was written", .min = -1e4, .max = 1e4},
      {.name = "stop", .verbs = "generate", .type = list, .unit = "TEXT", .help = "stop before this text; may be given several times"},
      {.name = "json-schema", .verbs = "generate", .type = path, .unit = "FILE", .help = "write JSON that satisfies this schema (docs/structured.md)"},
      {.name = "grammar", .verbs = "generate", .type = path, .unit = "FILE", .help = "write what this grammar allows (GBNF, as llama.cpp's; docs/structured.md)"},
      {.name = "samples", .verbs = "generate", .type = integer, .fallback = "1", .unit = "N", .help = "continuations to write, in one batch", .min = 1, .max = 65536},
      {.name = "samples-rule", .verbs = "generate", .type = text, .unit = "P,GAIN[,CEILING]", .help = "instead of --samples: as many as are worth their time where each is right with probability P. One more would raise CEILING·(1 − (1 − P)^N) by less than GAIN; CEILING (1) is the share of questions that are within reach at all"},
      {.name = "pick", .verbs = "generate", .type = choice, .fallback = "all", .help = "of --samples: all of them; best, the one with the most probability a token; first, the first that ends by itself, upon which the others are stopped (shorter lines of reasoning are more often right). Where none does, the best", .choices = {"all", "best", "first"}},
      {.name = "ignore-eos", .verbs = "generate", .type = flag, .help = "go on after an end-of-sequence token"},
      {.name = "context", .verbs = "generate", .type = integer, .unit = "TOKENS", .help = "longest sequence; not given: prompt and --max-tokens, within what the model allows", .min = 1, .max = kMaxCount},
      {.name = "chunk", .verbs = "generate serve", .type = integer, .fallback = "512", .unit = "TOKENS", .help = "prompt tokens read at a time; changes speed and memory, not the result", .min = 1, .max = kMaxCount},
      {.name = "weights", .verbs = "generate chat serve", .type = choice, .fallback = "auto", .help = "where weights are read from. Safetensors in bf16 on tiles: the mapped file, or a copy in huge pages (a token takes 15 to 32 % less time, the start of 1.1B weights 0.4 to 5 s more); auto: a copy from 256 tokens on, a chat counting its context, where memory has room for both. GGUF: mapped leaves matrices as the file codes them: the same answers, a fraction of the memory, seldom faster; copied decodes them at the start; auto decodes them where that fits. Others are packed at the start (0.4 s and more for 1.1B)", .choices = {"auto", "mapped", "copied"}},
      {.name = "arithmetic", .verbs = "generate chat serve eval", .type = choice, .fallback = "kept", .help = "what a GGUF file's matrices are multiplied by. kept: the decoded weights' bits; int8: activations are rounded to 8 bits in groups of 32 and multiplied with the codes as integers: other answers (the page on quantization says how far), the same on every processor; a token takes less time where it waits for decoding", .choices = {"kept", "int8"}},
      {.name = "kv-dtype", .verbs = "generate chat eval serve", .type = choice, .help = "how keys and values are kept; not given: as they are computed; bf16, q8, q4 take less memory and round: 8 or 4 bits each and a scale for every token and head", .choices = {"f32", "bf16", "q8", "q4"}},
      {.name = "page", .verbs = "generate serve", .type = integer, .fallback = "16", .unit = "TOKENS", .help = "tokens per page of the key-value cache; does not change the result", .min = 1, .max = 65536},

      // generate, chat, serve: guesses.
      {.name = "speculate", .verbs = "generate chat serve", .type = choice, .fallback = "off", .help = "guess tokens and compute several at once; a guess is taken where it is what the model draws, so no answer changes. ngram: what followed where the last tokens stood before in prompt and text; draft: what the model of --draft draws. As many are computed as make it quicker by measured times: none where that would be slower", .choices = {"off", "ngram", "draft"}},
      {.name = "draft", .verbs = "generate chat serve", .type = path, .unit = "MODEL", .help = "a smaller model with the same tokenizer, which guesses (--speculate draft); it is in the forecast of memory"},
      {.name = "fast", .verbs = "generate chat serve", .type = flag, .help = "of --draft, where tokens are sampled: guesses are taken by rejection sampling, more of them than where they must be what the model itself draws. Every text is as likely as without, but a seed does not say the same again"},
      {.name = "draft-tokens", .verbs = "generate chat serve", .type = integer, .fallback = "16", .unit = "TOKENS", .help = "of --speculate and --draft: most tokens guessed at a time; memory is laid out for them", .min = 1, .max = 4096},

      // chat.
      {.name = "system", .verbs = "chat", .type = text, .unit = "TEXT", .help = "system prompt: what the model should know and be"},
      {.name = "invalid-utf8", .verbs = "train adapt tokenize", .type = choice, .fallback = "error", .help = "what is done with bytes of a text that are no UTF-8 (with --train and --pack of tokenize): error: refuse the file, naming the byte; replace: read each as U+FFFD; skip: leave them out. Documents so changed are counted", .choices = {"error", "replace", "skip"}},
      {.name = "answers", .verbs = "train adapt tokenize", .type = choice, .fallback = "all", .help = "which answers of a conversation (messages) are learned. all: in one sample, where the template writes earlier turns as it wrote them first; each: a sample for every answer with the turns before it, also for templates that drop earlier reasoning; last: the last answer", .choices = {"all", "last", "each"}},
      {.name = "chat-template", .verbs = "chat serve train adapt", .type = path, .unit = "FILE", .help = "Jinja template to write conversations with; not given: the model's own"},
      {.name = "max-tokens", .verbs = "chat", .type = integer, .unit = "TOKENS", .help = "most tokens of an answer; not given: what the context holds", .min = 1, .max = kMaxCount},
      {.name = "context", .verbs = "chat", .type = integer, .unit = "TOKENS", .help = "longest conversation; not given: what the model allows and memory holds, up to 8192", .min = 2, .max = kMaxCount},

      // serve.
      {.name = "also", .verbs = "serve", .type = list, .unit = "NAME=DIR", .help = "a further model, which requests call NAME; may be given several times. All are judged before any is loaded; adapters, a draft and a template are MODEL's"},
      {.name = "host", .verbs = "serve", .type = text, .fallback = "127.0.0.1", .unit = "ADDRESS", .help = "address to listen on; one that other machines reach needs a key"},
      {.name = "port", .verbs = "serve", .type = integer, .fallback = "8080", .unit = "N", .help = "port to listen on; 0: one that is free (--json tells it)", .min = 0, .max = 65535},
      {.name = "model-name", .verbs = "serve", .type = text, .unit = "NAME", .help = "what requests call the model; not given: the last part of MODEL"},
      {.name = "api-key", .verbs = "serve bench-serve", .type = text, .unit = "KEY", .help = "what a request must bring (Authorization: Bearer KEY); better as TERN_API_KEY, which no list of processes shows"},
      {.name = "api-key-file", .verbs = "serve", .type = path, .unit = "FILE", .help = "keys, one a line; each is good"},
      {.name = "allow-host", .verbs = "serve", .type = list, .unit = "NAME", .help = "a further name the server may be called by, beside addresses, localhost and --host; may be given several times"},
      {.name = "allow-origin", .verbs = "serve", .type = list, .unit = "URL", .help = "a site whose pages may ask, such as https://chat.example.org; *: all; may be given several times"},
      {.name = "context", .verbs = "serve", .type = integer, .unit = "TOKENS", .help = "longest prompt and answer together; not given: what the model allows and memory holds, up to 8192", .min = 2, .max = kMaxCount},
      {.name = "max-running", .verbs = "serve", .type = integer, .fallback = "16", .unit = "N", .help = "answers computed at once; the cache has pages for as many of full length as memory holds", .min = 1, .max = 4096},
      {.name = "max-queue", .verbs = "serve", .type = integer, .fallback = "256", .unit = "N", .help = "answers that may wait beside them; more requests get 429", .min = 0, .max = 1e6},
      {.name = "max-body", .verbs = "serve", .type = bytes, .fallback = "1MiB", .unit = "SIZE", .help = "largest body of a request; a larger one gets 413", .min = 1024, .max = 1 << 30},
      {.name = "max-connections", .verbs = "serve", .type = integer, .fallback = "2048", .unit = "N", .help = "open connections; more get 503", .min = 1, .max = 1e6},
      {.name = "embed-tokens", .verbs = "serve", .type = integer, .fallback = "512", .unit = "TOKENS", .help = "longest text for /v1/embeddings, which memory is kept for; 0: none are made", .min = 0, .max = kMaxCount},
      {.name = "prefix-cache", .verbs = "serve", .type = toggle, .fallback = "on", .help = "keep the keys of what was read and written for prompts that begin alike; changes speed, not the result"},
      {.name = "drain", .verbs = "serve", .type = seconds, .fallback = "30s", .unit = "TIME", .help = "time that answers under way get after SIGTERM", .min = 0, .max = 86400},

      // eval.
      {.name = "convention", .verbs = "eval", .type = choice, .fallback = "stride", .help = "whose way to cut the text into windows and count", .choices = {"stride", "harness", "gptq", "llamacpp"}},
      {.name = "window", .verbs = "eval", .type = integer, .unit = "TOKENS", .help = "length of a window; not given: the convention's (stride 1024, gptq 2048, llamacpp 512), within what the model allows", .min = 2, .max = kMaxCount},
      {.name = "stride", .verbs = "eval", .type = integer, .unit = "TOKENS", .help = "from one window to the next; not given: one less than the window, so each token is scored once", .min = 1, .max = kMaxCount},
      {.name = "bos", .verbs = "eval", .type = choice, .fallback = "auto", .help = "token in front; auto: of --task BOS if the tokenizer adds it, of --data BOS, else EOS; or always BOS, or never one", .choices = {"auto", "always", "never"}},

      {.name = "task", .verbs = "eval", .type = path, .unit = "FILE", .help = "questions, one JSON object per line: prompt with choices and the index of the answer, or prompt and answer"},
      {.name = "reference", .verbs = "eval", .type = path, .unit = "MODEL", .help = "with --data: how far the model is from this one, by KL divergence and the likeliest token"},
      {.name = "output", .verbs = "eval", .type = path, .unit = "FILE", .help = "write each result here as it comes; the same command goes on from it"},
      {.name = "extract", .verbs = "eval", .type = text, .unit = "PATTERN", .help = "of --task: the part of the written text that counts as the answer (regular expression); without a match it is wrong"},
      {.name = "extract-which", .verbs = "eval", .type = choice, .fallback = "last", .help = "of several matches of --extract", .choices = {"first", "last"}},
      {.name = "ignore-case", .verbs = "eval", .type = flag, .help = "of --task: compare written answers without regard to case"},
      {.name = "ignore-punctuation", .verbs = "eval", .type = flag, .help = "of --task: compare written answers without punctuation"},

      // embed.
      {.name = "text", .verbs = "embed", .type = text, .unit = "TEXT", .help = "one text"},
      {.name = "input", .verbs = "embed", .type = path, .unit = "FILE", .help = "texts, one per line; .jsonl: {\"text\": …} (not messages); -: standard input"},
      {.name = "output", .verbs = "embed", .type = path, .unit = "FILE.npy", .help = "write the vectors here, as NumPy's array of (texts, width) in f32; a file that is there is not written over"},
      {.name = "pooling", .verbs = "embed", .type = choice, .help = "how a text's rows become one; not given: as the model says, else mean (encoder) or last (decoder)", .choices = {"mean", "cls", "last", "max", "mean-sqrt", "weighted-mean", "pooler"}},
      {.name = "normalize", .verbs = "embed", .type = choice, .fallback = "auto", .help = "vectors of length 1; auto: as the model says, else not", .choices = {"auto", "always", "never"}},
      {.name = "prefix", .verbs = "embed", .type = text, .unit = "TEXT", .help = "put before every text, such as 'query: '; not given: what the model says"},
      {.name = "truncate", .verbs = "embed", .type = flag, .help = "leave out what a text has too much for the model; without it such a text is an error"},
      {.name = "batch", .verbs = "embed", .type = integer, .fallback = "32", .unit = "TEXTS", .help = "texts at a time; changes speed and memory, not the result", .min = 1, .max = kMaxCount},

      // tokenize.
      {.name = "text", .verbs = "tokenize", .type = text, .unit = "TEXT", .help = "the text; of --decode: ids, parted by blanks or commas"},
      {.name = "input", .verbs = "tokenize", .type = path, .unit = "PATH", .help = "read from a file; -: standard input; with --train and --pack also a folder of texts"},
      {.name = "decode", .verbs = "tokenize", .type = flag, .help = "ids to text instead of text to ids"},
      {.name = "add-special", .verbs = "tokenize", .type = flag, .help = "add BOS and EOS where the tokenizer does"},
      {.name = "pack", .verbs = "tokenize", .type = flag, .help = "write a token file from text or JSONL (text, prompt and completion, or messages)"},
      {.name = "train", .verbs = "tokenize", .type = flag, .help = "train a byte-level BPE on the input"},
      {.name = "vocab-size", .verbs = "tokenize", .type = integer, .unit = "N", .help = "of --train: number of tokens, special ones included", .min = 257, .max = 1 << 24},

      // plan: what is asked for, and the space it is looked for in.
      {.name = "hardware", .verbs = "plan", .type = path, .unit = "FILE", .help = "cluster file: nodes, devices, memory, links, rates; or a ready machine such as h100, a100-80g, rtx4090 (`tern help machines`)"},
      {.name = "nodes", .verbs = "plan", .type = integer, .unit = "N", .help = "how many of the file's nodes to use, where all are of one type; not given: as the file says", .min = 1, .max = kMaxCount},
      {.name = "batch", .verbs = "plan", .type = integer, .unit = "SEQUENCES", .help = "sequences per step, over all devices", .min = 1, .max = kMaxCount},
      {.name = "batches", .verbs = "plan", .type = text, .unit = "RANGE", .help = "instead of --batch: FIRST:LAST (doubling) or FIRST:LAST:STEP; each is planned, and the one with most tokens/s taken"},
      {.name = "seq", .verbs = "plan", .type = integer, .unit = "TOKENS", .help = "length of a sequence; an encoder reads as many beside its decoder, and tokens/s counts one side", .min = 1, .max = kMaxCount},
      {.name = "lengths", .verbs = "plan", .type = path, .unit = "FILE", .help = "lengths of the data's sequences, one to a line, or length,count: attention, padding, real tokens and the slowest rank are priced by them; not given: every sequence is --seq long"},
      {.name = "batching", .verbs = "plan", .type = choice, .fallback = "packed", .help = "of --lengths: packed: laid end to end and cut into windows of --seq, attention inside each sequence alone (as tern train does); padded: one to a window, filled up or cut to --seq", .choices = {"packed", "padded"}},
      {.name = "output", .verbs = "plan", .type = path, .unit = "FILE", .help = "write the plan here, as JSON"},
      {.name = "dtype", .verbs = "plan", .type = choice, .fallback = "bf16", .help = "type of weights and activations", .choices = {"f32", "bf16", "f16", "f64"}},
      {.name = "gradients", .verbs = "plan", .type = choice, .fallback = "f32", .help = "type gradients are kept and reduced in; f16: with --dtype f16 alone, and the default under a calibration in f16, whose runs kept them so", .choices = {"f32", "bf16", "f64", "f16"}},
      {.name = "optimizer", .verbs = "plan", .type = choice, .fallback = "adamw", .help = "update rule, for its states' bytes", .choices = rule_names()},
      {.name = "adapters", .verbs = "plan", .type = integer, .unit = "RANK", .help = "freeze the model, train low-rank products of this rank in its layers", .min = 1, .max = 65536},
      {.name = "capacity-factor", .verbs = "plan", .type = real, .fallback = "1.25", .unit = "X", .help = "mixtures of experts: rows an expert's rank makes room for, over an even share", .min = 1, .max = 64},
      {.name = "effort", .verbs = "plan", .type = choice, .fallback = "normal", .help = effort_help(), .choices = efforts()},
      {.name = "max-seconds", .verbs = "plan", .type = seconds, .unit = "TIME", .help = "stop searching after this time and state the gap; not given: as --effort says; --certify may take as long again, without it as long as it needs", .min = 0, .above_min = true},
      {.name = "max-seconds", .verbs = "bench-serve", .type = seconds, .unit = "TIME", .help = "measure no longer than this, in all; what has ended by then counts", .min = 0, .above_min = true},
      {.name = "max-tensor", .verbs = "plan", .type = integer, .unit = "N", .help = "widest tensor parallelism; not given: 64", .min = 1, .max = 65536},
      {.name = "max-context", .verbs = "plan", .type = integer, .unit = "N", .help = "widest context parallelism; not given: 64", .min = 1, .max = 65536},
      {.name = "max-stages", .verbs = "plan", .type = integer, .unit = "N", .help = "most pipeline stages; not given: 1024, with --inference 16", .min = 1, .max = 65536},
      {.name = "max-chunks", .verbs = "plan", .type = integer, .unit = "N", .help = "most chunks per stage of interleaved pipelines; not given: 8", .min = 1, .max = 1024},
      {.name = "max-micro-batch", .verbs = "plan", .type = integer, .unit = "N", .help = "most sequences per micro-batch and data rank; not given: 16", .min = 1, .max = 65536},
      {.name = "schedules", .verbs = "plan", .type = text, .unit = "LIST", .help = schedules_help()},
      {.name = "zero", .verbs = "plan", .type = text, .unit = "LIST", .help = "ZeRO stages allowed, of 0,1,2,3; not given: all"},
      {.name = "allow-recompute", .verbs = "plan", .type = text, .unit = "LIST", .help = "per layer, of none,attention,full; not given: all"},
      {.name = "offload", .verbs = "plan", .type = choice, .fallback = "none", .help = "what may live on the host or on disk; more than none takes longer to prove; with --inference all unless given, of weights, keys and values", .choices = {"all", "states", "activations", "none"}},
      {.name = "fix", .verbs = "plan", .type = text, .unit = "LIST", .help = fix_help()},
      {.name = "emit", .verbs = "plan", .type = choice, .help = "search only what this framework runs, and print its command line or file; vllm: with --inference", .choices = {"megatron", "torchtitan", "deepspeed", "vllm"}},
      {.name = "emit-output", .verbs = "plan", .type = path, .unit = "FILE", .help = "write what --emit prints here: a shell script, or DeepSpeed's JSON"},
      {.name = "tokens", .verbs = "plan", .type = count, .unit = "N", .help = "days and cost of a run over this many tokens (300B, 2e12), checkpoints and failures counted", .min = 1, .max = 1e18},
      {.name = "price-per-hour", .verbs = "plan", .type = real, .unit = "PRICE", .help = "of one device; not given: the cluster file's", .min = 0, .max = 1e9},
      {.name = "mtbf", .verbs = "plan", .type = seconds, .fallback = "50000h", .unit = "TIME", .help = "mean time between failures of one device with its share of all else, for --tokens (50,000 hours: Llama 3's 419 in 54 days of 16,384 devices)", .min = 0, .above_min = true},
      {.name = "checkpoint-time", .verbs = "plan", .type = seconds, .unit = "TIME", .help = "that training stands still for a checkpoint, for --tokens; not given: weights and states to the nodes' disks", .min = 0, .above_min = true},
      {.name = "restart-time", .verbs = "plan", .type = seconds, .fallback = "5m", .unit = "TIME", .help = "from a failure to the next step, without reading the checkpoint, for --tokens", .min = 0},
      {.name = "details", .verbs = "plan", .type = flag, .help = "also print the search and its limits, each layer, each rank's memory by what it is for, rivals, and what to measure first"},
      {.name = "explain", .verbs = "plan", .type = flag, .help = "also plan with a little more memory, link and compute: what each is worth (five more searches)"},
      {.name = "pareto", .verbs = "plan", .type = flag, .help = "also plan for 1, 2, 4 … nodes: fewest devices, lowest cost, fastest"},
      {.name = "html", .verbs = "plan", .type = path, .unit = "FILE", .help = "write a page: the step's timeline, memory against capacity, layers, rivals"},
      {.name = "picture", .verbs = "plan", .type = path, .unit = "FILE", .help = "write the timeline and the memory as one SVG"},
      {.name = "certify", .verbs = "plan", .type = flag, .help = "then judge the plan by code that shares nothing with the search, and by a mixed-integer solver (cbc, highs) if one is there and the case is small; the plan then claims no more than that proves"},
      {.name = "check", .verbs = "plan", .type = path, .unit = "PLAN", .help = "search nothing: judge this plan file for the same MODEL, cluster and space; exit code 4 if it is not what it says, 8 if it is and its bound could not be proven (plan with --certify)"},
      {.name = "ulysses", .verbs = "plan", .type = toggle, .fallback = "on", .help = "context parallelism by all-to-all beside the ring"},

      // plan --inference.
      {.name = "inference", .verbs = "plan", .type = flag, .help = "plan serving instead of training: what fits where, first token and tokens/s, users at once"},
      {.name = "prompt-tokens", .verbs = "plan", .type = integer, .fallback = "2048", .unit = "TOKENS", .help = "of --inference: length of a prompt", .min = 1, .max = kMaxCount},
      {.name = "max-tokens", .verbs = "plan", .type = integer, .fallback = "256", .unit = "TOKENS", .help = "of --inference: length of an answer", .min = 1, .max = kMaxCount},
      {.name = "prompt-lengths", .verbs = "plan", .type = path, .unit = "FILE", .help = "of --inference, instead of --prompt-tokens: lengths of prompts, one to a line, or length,count: means for throughput, 99 of 100 within --ttft and within memory"},
      {.name = "output-lengths", .verbs = "plan", .type = path, .unit = "FILE", .help = "of --inference, instead of --max-tokens: lengths of answers, likewise"},
      {.name = "users", .verbs = "plan", .type = integer, .unit = "N", .help = "of --inference: sequences at once; not given: one, or with --ttft or --tpot as many as keep them", .min = 1, .max = 65536},
      {.name = "ttft", .verbs = "plan", .type = seconds, .unit = "TIME", .help = "of --inference: most time to a first token, such as 500ms", .min = 0, .above_min = true},
      {.name = "tpot", .verbs = "plan", .type = seconds, .unit = "TIME", .help = "of --inference: most time per token after it, such as 40ms", .min = 0, .above_min = true},
      {.name = "kv-dtype", .verbs = "plan", .type = choice, .help = "of --inference: how keys and values are kept; not given: as --dtype; q8, q4: 8 or 4 bits each, 16 more for every token and head", .choices = {"f32", "bf16", "q8", "q4"}},
      {.name = "weight-dtype", .verbs = "plan", .type = choice, .help = "of --inference: how weights are kept; not given: as --dtype", .choices = {"f32", "bf16", "q8", "q4"}},

      // plan calibrate, plan table.
      {.name = "calibration", .verbs = "plan plan-table", .type = path, .unit = "FILE", .help = "constants that tern plan calibrate fitted; predictions then carry an error bar"},
      {.name = "hardware", .verbs = "plan-calibrate", .type = path, .unit = "FILE", .help = "cluster file of the runs, or a ready machine; as many nodes are taken as a run has"},
      {.name = "hardware", .verbs = "plan-table", .type = path, .unit = "FILE", .help = "another cluster file than the calibration's, or none: the file's own rates"},
      {.name = "software", .verbs = "plan-calibrate", .type = text, .fallback = "not stated", .unit = "NAME", .help = "the framework that made these runs"},
      {.name = "folds", .verbs = "plan-calibrate", .type = choice, .fallback = "layout", .help = "rows that are left out together: those of one layout of parallel degrees, of one model, or a fifth at random", .choices = {"layout", "model", "rows"}},
      {.name = "vocabulary", .verbs = "plan-calibrate plan-table", .type = integer, .fallback = "51200", .unit = "N", .help = "where the table has no such column", .min = 1, .max = 67108864},
      {.name = "schedule", .verbs = "plan-calibrate plan-table", .type = choice, .fallback = "1f1b", .help = "where the table has no such column", .choices = schedules_without_chunks()},
      {.name = "dtype", .verbs = "plan-calibrate plan-table", .type = choice, .fallback = "f16", .help = "where the table has no such column", .choices = {"f16", "bf16", "f32"}},
      {.name = "recompute", .verbs = "plan-calibrate plan-table", .type = choice, .fallback = "full", .help = "where the table has no such column", .choices = {"none", "attention", "full"}},
      {.name = "output", .verbs = "plan-calibrate", .type = path, .unit = "FILE", .help = "write the calibration here, as TOML"},

      // bench.
      {.name = "url", .verbs = "bench-serve", .type = text, .unit = "URL", .help = "a server that is there: http://HOST:PORT"},
      {.name = "model-name", .verbs = "bench-serve", .type = text, .unit = "NAME", .help = "what requests call the model; not given: the first of /v1/models"},
      {.name = "rate", .verbs = "bench-serve", .type = real, .unit = "N", .help = "requests a second on average, at random times; --users instead wait for their answers", .min = 0, .max = 1e5, .above_min = true},
      {.name = "users", .verbs = "bench-serve", .type = integer, .unit = "N", .help = "users who ask again when they have their answer; neither this nor --rate: the most that keep --ttft and --tpot are looked for", .min = 1, .max = 65536},
      {.name = "requests", .verbs = "bench-serve", .type = integer, .fallback = "100", .unit = "N", .help = "requests that are measured, of each load that is tried", .min = 1, .max = 1e7},
      {.name = "prompt-tokens", .verbs = "bench-serve", .type = integer, .fallback = "128", .unit = "TOKENS", .help = "length of a prompt", .min = 1, .max = kMaxCount},
      {.name = "max-tokens", .verbs = "bench-serve", .type = integer, .fallback = "64", .unit = "TOKENS", .help = "length of an answer", .min = 1, .max = kMaxCount},
      {.name = "prompt-lengths", .verbs = "bench-serve", .type = path, .unit = "FILE", .help = "instead of --prompt-tokens: lengths of prompts to draw from, one to a line, or length,count"},
      {.name = "output-lengths", .verbs = "bench-serve", .type = path, .unit = "FILE", .help = "instead of --max-tokens: lengths of answers, likewise"},
      {.name = "seed", .verbs = "bench-serve", .type = integer, .fallback = "1", .unit = "N", .help = "of times, lengths and prompts", .min = 0},
      {.name = "ttft", .verbs = "bench-serve", .type = seconds, .unit = "TIME", .help = "target: most time to a first token, such as 500ms", .min = 0, .above_min = true},
      {.name = "tpot", .verbs = "bench-serve", .type = seconds, .unit = "TIME", .help = "target: most time per token after it, such as 40ms", .min = 0, .above_min = true},
      {.name = "share", .verbs = "bench-serve", .type = real, .fallback = "0.9", .unit = "X", .help = "of the search for the most users: the share of requests that must keep the targets", .min = 0, .max = 1, .above_min = true},
      {.name = "hardware", .verbs = "bench-serve", .type = path, .unit = "FILE", .help = "cluster file of this machine (tern profile): show what tern plan --inference foretells beside it"},
      {.name = "rounds", .verbs = "bench", .type = integer, .fallback = "7", .unit = "N", .help = "times that every task is measured", .min = 1, .max = 10000},
      {.name = "limits-only", .verbs = "bench", .type = flag, .help = "measure the machine, not tern's work on it"},
      {.name = "disk", .verbs = "bench", .type = path, .unit = "DIR", .help = "also read a file of 256 MiB, made and removed under this directory"},
      {.name = "output", .verbs = "bench", .type = path, .unit = "FILE", .help = "write a roofline picture (SVG)"},

      // profile.
      {.name = "output", .verbs = "profile", .type = path, .unit = "FILE.toml", .help = "write the cluster file here; not given: standard output"},
      {.name = "quick", .verbs = "profile", .type = flag, .help = "fewer shapes and rounds"},
      {.name = "rounds", .verbs = "profile", .type = integer, .unit = "N", .help = "times that every figure is measured; not given: 5, with --quick 3", .min = 1, .max = 10000},
      {.name = "disk", .verbs = "profile", .type = path, .unit = "DIR", .help = "read and write two files of 256 MiB, made and removed under this directory; not given: that of --output, else this one"},
      {.name = "ranks", .verbs = "profile", .type = integer, .fallback = "1", .unit = "N", .help = "measure with so many ranks at work at the same time, threads of this process, and collectives between them: the file has a device for each, which tern plan shares work out to and tern train --plan runs; --threads is of each rank", .min = 1, .max = 1024},
      {.name = "import", .verbs = "profile", .type = list, .unit = "FILE", .help = "measure nothing: read the output of nccl-tests (all_reduce_perf, all_gather_perf, …); may be given several times; -: standard input"},

      {.name = "json", .verbs = "train adapt generate chat eval embed serve tokenize inspect export quantize plan plan-calibrate plan-table compare doctor demo bench bench-serve profile adapt-merge adapt-combine new version", .type = flag, .help = "machine-readable output on standard output"},
  };
  add_rule_options(all);
  return all;
}
// clang-format on

}  // namespace

const OptionTable& tern_options() {
  static const OptionTable table = {
      .verbs = make_verbs(),
      .options = make_options(),
      .environment =
          {{"TERN_STORE", "set by tern launch for its ranks: where they find each other"},
           {"TERN_RUN", "set by tern launch for its ranks: the run they are of"},
           {"TERN_FAULT",
            "what goes wrong, to try how a run ends: die@RANK@N, stop@RANK@N, partition@RANK@N, corrupt@RANK@N (at the "
            "rank's message N); slow@RANK@BYTES (a second)"},
           {"TERN_DATA", "directory of test data (tests only; --data is TERN_DATA_FILE)"},
           {"TERN_ISA", "instruction set of the CPU kernels (see tern doctor); not set: the best that works here"},
           {"TERN_LOG", "least level to tell on standard error: error, warn, info (default) or debug"}},
  };
  return table;
}

}  // namespace tern
