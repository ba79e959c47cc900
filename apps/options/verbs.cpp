// The verbs, in the order in which `tern help` names them: what each is for, what it reads, examples, a paragraph.
#include "apps/options/rows.h"

namespace tern {

// Longer than a screen: a table, a verb a row.
std::vector<VerbSpec> verb_rows() {
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
       .details =
           "Writes OUT/checkpoints/step-N, OUT/model (a Hugging Face directory) and OUT/logs. The first Ctrl-C saves "
           "and exits with 75, a second one exits at once."},
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
           {{"tern adapt combine --adapter a/adapter --adapter b/adapter --shares 1,0.5 --output both",
             "the sum, exactly: its rank is the sum of theirs"},
            {"tern adapt combine --adapter a/adapter --adapter b/adapter --method ties --density 0.2 --output both",
             "the largest fifth of each where their signs agree"},
            {"tern generate MODEL --adapter both --prompt 'Once'", "the model with it"}},
       .details =
           "The methods are PEFT's (add_weighted_adapter) and OPCM. The model itself is not read. docs/adapting.md "
           "says what each computes."},
      {.name = "adapt extract",
       .summary = "An adapter from two models: what TUNED has beyond BASE, cut to a low rank by singular values",
       .positionals = {{"BASE", "the model that the adapter will stand beside: a model directory or a GGUF file"},
                       {"TUNED", "a model of the same family and sizes, such as BASE after training"}},
       .examples = {{"tern adapt extract BASE TUNED --output difference", "rank 16 of every matrix of the layers"},
                    {"tern adapt extract BASE TUNED --rank 64 --target q_proj,v_proj --output difference",
                     "more of fewer matrices"},
                    {"tern generate BASE --adapter difference --prompt 'Once'", "the base with it"}},
       .details =
           "Both models are read matrix by matrix, whatever form they have; their size need not fit in memory. How "
           "much of the difference the rank keeps is printed. Tables of tokens, norms and biases have no adapter: "
           "those that differ are named."},
      {.name = "new",
       .summary = "Write the configuration of a new model, of the sizes given, for tern train --from-scratch",
       .examples = {{"tern new --layers 6 --width 256 --heads 4 --tokenizer tok --output small", "a Llama of 6 layers"},
                    {"tern train small --from-scratch --data text.txt --output run", "then train it"}},
       .details = "The model is of the family llama: rotary positions, RMSNorm, a gated MLP. The directory holds "
                  "config.json and the tokenizer; its number of tokens is the model's."},
      {.name = "launch",
       .summary = "Run a verb on several ranks of this machine, each a process",
       .examples = {{"tern launch -n 2 -- train recipe.toml --output run", "two processes train one model"},
                    {"tern launch -n 4 --max-restarts 3 -- train recipe.toml --output run",
                     "after a lost rank all start again from the last checkpoint"}},
       .details =
           "The verb is train. Rank 0 talks; what the others say has their rank before it. The first Ctrl-C stops "
           "all at the same step with everything saved, a second one ends them at once. On several machines srun, "
           "mpirun and torchrun start the ranks instead (docs/parallel.md).",
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
           "message; one that cannot be answered is told (--json: an object with error), and its exit code ends the "
           "verb."},
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
           "decoder the last is taken. A text's vector does not depend on --batch or --threads."},
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
           "Weights, cache and activations are priced before anything is loaded. A request has the tokens and "
           "log-probabilities it would have alone. Who closes a connection frees its memory at once. SIGTERM or "
           "Ctrl-C: what is under way ends first (--drain), then exit code 0; a second signal ends at once."},
      {.name = "tokenize",
       .summary = "Text to ids and back; pack data files; train a tokenizer",
       .positionals = {{"TOKENIZER", "a model directory or tokenizer file; with --train it is left out", false}},
       .examples = {{"tern tokenize MODEL --text 'Hello world'", "the ids of a text"},
                    {"tern tokenize MODEL --pack --input text.jsonl --output data.tokens", "a token file for training"},
                    {"tern tokenize --train --vocab-size 8192 --input text.txt --output tokenizer",
                     "a new byte-level BPE"}}},
      {.name = "inspect",
       .summary = "What a model directory, an adapter or a token file holds, and whether it is whole",
       .positionals = {model},
       .examples = {{"tern inspect run/model", "sizes, parameters, bytes; exit 4 if a file is cut short"},
                    {"tern inspect run/model --layouts 2",
                     "how two ranks would share out its matrices, and what they would send"}}},
      {.name = "export",
       .summary = "Write a model in another form: a Hugging Face directory or a GGUF file; read back and compared",
       .positionals = {model},
       .examples = {{"tern export run/model --format gguf --dtype q8_0 --output model.gguf",
                     "for llama.cpp and its kin"},
                    {"tern export model.gguf --output model", "a GGUF file as a Hugging Face directory"}},
       .takes_recipe = true},
      {.name = "quantize",
       .summary = "Write a model's weights in fewer bits, as a GGUF file or a directory; read back, the rounding error "
                  "stated",
       .positionals = {model},
       .examples =
           {{"tern quantize run/model --type q4_0 --output small.gguf", "4.5 bits per weight, tables in 8.5"},
            {"tern quantize run/model --method gptq --data text.txt --output small.gguf", "the same bytes, closer"},
            {"tern quantize run/model --method lcq --bits 3 --data text.txt --output small",
             "3.25 bits per weight by learned tables, as a directory"},
            {"tern quantize run/model --method lcq --bits mixed --target-bytes 40MiB --data text.txt --output small",
             "each matrix in as many bits as it is worth"},
            {"tern eval small.gguf --data held-out.txt --reference run/model", "what that costs"}},
       .takes_recipe = true,
       .details =
           "Each block of weights is rounded by itself, as the format's reference rounds it, or by --method gptq "
           "or lcq, which keep what is done in OUTPUT.partial: the same command goes on behind a kill. The layers' "
           "matrices get --type, the tables of tokens (embedding, head) --table-type, vectors stay f32. Parameters "
           "are read, written and read back one after the other. generate, chat, eval and serve run the file as it "
           "lies: --weights mapped."},
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
           "layers lie, what is sharded (ZeRO), recomputed and offloaded. The answer is the least simulated step "
           "time, or carries the gap that is left. Ctrl-C ends the search with the best plan so far and its gap, "
           "exit code 130. Exit code 3: nothing fits, with the missing bytes and what would fit; 8: undecided, no "
           "plan in --max-seconds, or a bound that --certify or --check could not prove. --certify and --check do "
           "not judge a plan's binds, model_ps, model_bound_ps, restrictions and families beyond contradictions. How "
           "to write a cluster file: docs/cluster-files.md."},
      {.name = "plan calibrate",
       .summary = "Fit the cost model's constants to measured runs",
       .positionals = {{"DATA", "a table of runs (CSV): sizes, degrees, what a step took"}},
       .examples = {{"tern plan calibrate runs.csv --hardware a100-80g --software Megatron --output a100.toml",
                     "constants with their errors on rows left out"},
                    {"tern plan MODEL --hardware a100-80g --dtype f16 --calibration a100.toml --batch 64 --seq 2048",
                     "a plan with an error bar"}},
       .details =
           "A dozen constants with a meaning each (docs/calibration.md) are fitted, robust against rows that nothing "
           "explains; rows whose column \"use\" says score are left out of the fit and reported."},
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
           "times (Poisson), whether or not earlier ones have their answers; with --users each user asks again when "
           "answered. Times and lengths follow from --seed. Load goes on until the last measured request has ended; "
           "times count from when a request was due.",
       .command = "options of tern serve"},
      {.name = "profile",
       .summary = "Measure this machine into a cluster file that tern plan reads; or read what nccl-tests measured",
       .examples = {{"tern profile --output this.toml", "some minutes; then tern plan MODEL --hardware this.toml …"},
                    {"tern profile --quick --output this.toml", "a minute or two: fewer shapes, fewer rounds"},
                    {"tern profile --ranks 2 --output two.toml",
                     "this machine as two ranks: then tern plan MODEL --hardware two.toml"},
                    {"tern profile --import all_reduce.log --import all_gather.log",
                     "bandwidth and latency of links, from the output of nccl-tests"}},
       .details =
           "Matrix products by shape, type and use, attention, norms, memory, disk and loopback, each by the code "
           "that trains and decodes, once a round. Every figure is written with its spread; figures that spread by "
           "more than 10 % are counted, and said to be noise where they are many. A model's own step is not run: "
           "what tern plan says of it is a prediction."},
      {.name = "help",
       .summary = "Help on a verb or a topic: exit-codes, environment, files, recipes, machines, updates, options",
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

}  // namespace tern
