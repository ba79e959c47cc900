// Help topics. What the table knows is made from the table; only what it cannot know is written here.
#include <fmt/format.h>

#include "apps/options.h"
#include "base/error.h"
#include "base/text.h"
#include "hardware/cluster.h"
#include "hardware/machines.h"
#include "spec/update_words.h"

namespace tern {
namespace {

constexpr std::string_view kExitCodes =
    "Exit codes\n\n"
    "  0    done\n"
    "  1    a bug in tern, or something unforeseen\n"
    "  2    a wrong verb, option, value, recipe key or TERN_ variable\n"
    "  3    it does not fit: memory or disk; the message says what would fit\n"
    "  4    a model, tokenizer, data or run file is missing, unreadable or malformed\n"
    "  5    another process of the job was lost or late\n"
    "  6    none of the checkpoints verifies; or --resume must, and there is none\n"
    "  7    training diverged: a loss or gradient is not a finite number; the last checkpoint stands\n"
    "  8    undecided: time or means ended before an answer was proven; the message says what holds\n"
    "  75   stopped on request after saving; the same command goes on\n"
    "  130  Ctrl-C (in training the second one: the first saves and exits with 75)\n"
    "  143  stopped by SIGTERM, in the same way (129: the terminal was lost)\n";

constexpr std::string_view kFiles =
    "Files\n\n"
    "MODEL is a Hugging Face directory (config.json, model.safetensors or its shards, and a tokenizer), a GGUF file\n"
    "(.gguf), or a name such as org/model found in the local Hugging Face cache (HF_HUB_CACHE, HF_HOME/hub,\n"
    "~/.cache/huggingface/hub). tern never downloads.\n\n"
    "A tokenizer is the first that is there of tokenizer.json; vocab.json + merges.txt; vocab.txt (WordPiece);\n"
    "tokenizer.model, spiece.model, sentencepiece.bpe.model (SentencePiece, or tiktoken ranks). A GGUF file holds its "
    "own.\n\n"
    "A run directory (tern train --output RUN) holds\n"
    "  checkpoints/step-N   complete and checksummed, or absent\n"
    "  model                a Hugging Face directory, ready for generate and eval\n"
    "  logs                 metrics as JSON lines and for TensorBoard\n\n"
    "Data is plain text, a token file written by tern tokenize --pack, or JSON lines (.jsonl, .ndjson), each one of\n"
    "  {\"text\": …}                                the loss is taken on everything\n"
    "  {\"prompt\": …, \"completion\": …}             on the completion\n"
    "  {\"messages\": [{\"role\": …, \"content\": …}]}  on what the role assistant says, in the model's chat "
    "template\n\n"
    "tern eval --task reads JSON lines {\"prompt\": …, \"choices\": […], \"answer\": 0} or {\"prompt\": …, \"answer\": "
    "…}.\n"
    "tern embed reads a text per line, or JSON lines with text.\n";

constexpr std::string_view kRecipes =
    "Recipes\n\n"
    "A recipe is a TOML file (or JSON) given in place of MODEL. Its keys are the options' names, with - or _, and "
    "model:\n\n"
    "  model = \"config.json\"\n"
    "  data = \"text.txt\"\n"
    "  steps = 600\n"
    "  learning-rate = 1e-3\n\n"
    "  [generate]              # keys of one verb; they are stronger than those above\n"
    "  temperature = 0.8\n\n"
    "Keys above all tables must be options of the verb that runs. Relative paths are relative to the recipe's folder\n"
    "(model: a file or folder there, else a name in the cache), so a recipe works from any working directory; on the\n"
    "command line they are relative to the working directory. An unknown key is an error. The order of strength:\n"
    "command line, environment, recipe, default;\n"
    "`tern config show VERB RECIPE` prints what holds and where it comes from.\n";

std::string environment_help(const OptionTable& table) {
  std::string out =
      "Environment\n\n"
      "Every option has a variable: --learning-rate is TERN_LEARNING_RATE; flags take on or off; a list is one text or "
      "a JSON\n"
      "array. The command line is stronger, recipes and defaults are weaker. A variable that starts with TERN_ and "
      "means nothing\n"
      "is an error; an empty one is not set. Two names differ from the rule or are no options:\n\n"
      "  TERN_DATA_FILE  the value of --data\n";
  for (const EnvironmentSpec& variable : table.environment)
    out += fmt::format("  {:<14}  {}\n", variable.name, variable.help);
  return out +
         "\nOthers that are honoured: HF_HUB_CACHE, HF_HOME and XDG_CACHE_HOME (where models are looked for),\n"
         "OMP_PROC_BIND and OMP_PLACES (how threads are bound).\n";
}

std::string machines_help() {
  std::string out =
      "Ready machines\n\n"
      "`tern plan MODEL --hardware NAME [--nodes N]` takes one of these in the place of a cluster file. Every figure "
      "in "
      "them\nsays where it comes from; what is assumed waits for a measurement.\n\n";
  for (const MachineFile& file : machine_files())
    out += fmt::format("  {:<12}  {}\n", file.name, parse_cluster(file.toml, std::string(file.name)).name);
  return out;
}

}  // namespace

std::string help_topic(const OptionTable& table, std::string_view topic) {
  if (topic == "exit-codes") return std::string(kExitCodes);
  if (topic == "files") return std::string(kFiles);
  if (topic == "recipes") return std::string(kRecipes);
  if (topic == "updates") return updates_help();
  if (topic == "machines") return machines_help();
  if (topic == "environment") return environment_help(table);
  if (topic == "options") return markdown_table(table);
  std::vector<std::string_view> known = {"exit-codes", "environment", "files",  "recipes",
                                         "machines",   "updates",     "options"};
  for (const VerbSpec& verb : table.verbs) {
    if (verb.name == topic || verb_key(verb.name) == topic) return help_verb(table, verb);
    known.push_back(verb.name);
  }
  throw Error(ErrorKind::usage, "no help on '{}'{} `{} help` lists verbs and topics", topic,
              nearest_name(topic, known).empty() ? ";" : did_you_mean(topic, known), program_name());
}

}  // namespace tern
