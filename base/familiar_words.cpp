#include "base/familiar_words.h"

#include <algorithm>
#include <array>
#include <string>

namespace tern {
namespace {

struct Word {
  std::string_view theirs, ours;
};
// Of Hugging Face's trainers, llama.cpp, nanoGPT, vLLM, torchrun.
constexpr std::array kOptions{
    Word{"epochs", "steps"},
    Word{"num-epochs", "steps"},
    Word{"num-train-epochs", "steps"},
    Word{"max-steps", "steps"},
    Word{"max-iters", "steps"},
    Word{"iters", "steps"},
    Word{"lr", "learning-rate"},
    Word{"min-lr", "min-learning-rate"},
    Word{"wd", "weight-decay"},
    Word{"grad-clip", "clip"},
    Word{"max-grad-norm", "clip"},
    Word{"warmup", "warmup-steps"},
    Word{"warmup-iters", "warmup-steps"},
    Word{"lr-scheduler", "schedule"},
    Word{"lr-scheduler-type", "schedule"},
    Word{"batch-size", "batch"},
    Word{"global-batch-size", "batch"},
    Word{"bs", "batch"},
    Word{"micro-batch-size", "micro-batch"},
    Word{"per-device-train-batch-size", "micro-batch"},
    Word{"gradient-accumulation-steps", "micro-batch"},
    Word{"seq-len", "seq"},
    Word{"seq-length", "seq"},
    Word{"sequence-length", "seq"},
    Word{"max-seq-length", "seq"},
    Word{"max-length", "seq"},
    Word{"block-size", "seq"},
    Word{"ctx-size", "context"},
    Word{"max-model-len", "context"},
    Word{"p", "prompt"},
    Word{"text", "prompt"},
    Word{"f", "prompt-file"},
    Word{"n", "max-tokens"},
    Word{"n-predict", "max-tokens"},
    Word{"max-new-tokens", "max-tokens"},
    Word{"temp", "temperature"},
    Word{"t", "threads"},
    Word{"n-threads", "threads"},
    Word{"o", "output"},
    Word{"out", "output"},
    Word{"outfile", "output"},
    Word{"output-dir", "output"},
    Word{"save-dir", "output"},
    Word{"train-file", "data"},
    Word{"dataset", "data"},
    Word{"validation-file", "valid-data"},
    Word{"eval-steps", "eval-every"},
    Word{"eval-interval", "eval-every"},
    Word{"save-steps", "checkpoint-every"},
    Word{"save-interval", "checkpoint-every"},
    Word{"logging-steps", "log-every"},
    Word{"log-interval", "log-every"},
    Word{"precision", "dtype"},
    Word{"bf16", "dtype"},
    Word{"fp16", "dtype"},
    Word{"torch-dtype", "dtype"},
    Word{"nproc-per-node", "ranks"},
    Word{"gpus", "ranks"},
    Word{"tp", "tensor-parallel"},
    Word{"tensor-parallel-size", "tensor-parallel"},
    Word{"ep", "expert-parallel"},
    Word{"expert-model-parallel-size", "expert-parallel"},
    Word{"lora-r", "rank"},
    Word{"lora-dropout", "adapter-dropout"},
    Word{"init-lora-weights", "init"},
    Word{"lora-rank", "rank"},
    Word{"r", "rank"},
    Word{"lora-alpha", "alpha"},
    Word{"target-modules", "target"},
    Word{"cluster", "hardware"},
    Word{"gpu", "hardware"},
};
constexpr std::array kVerbs{
    Word{"finetune", "adapt"},     Word{"fine-tune", "adapt"},   Word{"lora", "adapt"},
    Word{"peft", "adapt"},         Word{"sft", "train"},         Word{"pretrain", "train"},
    Word{"fit", "train"},          Word{"run", "generate"},      Word{"infer", "generate"},
    Word{"inference", "generate"}, Word{"complete", "generate"}, Word{"sample", "generate"},
    Word{"perplexity", "eval"},    Word{"ppl", "eval"},          Word{"evaluate", "eval"},
    Word{"test", "eval"},          Word{"server", "serve"},      Word{"api", "serve"},
    Word{"convert", "export"},     Word{"quant", "quantize"},    Word{"compress", "quantize"},
    Word{"embedding", "embed"},    Word{"encode", "tokenize"},   Word{"show", "inspect"},
    Word{"info", "inspect"},       Word{"benchmark", "bench"},   Word{"diff", "compare"},
    Word{"search", "plan"},        Word{"torchrun", "launch"},   Word{"check", "doctor"},
};

template <size_t N>
std::string_view ours_of(const std::array<Word, N>& words, std::string_view theirs) {
  std::string word(theirs);
  std::replace(word.begin(), word.end(), '_', '-');
  const auto at = std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.theirs == word; });
  return at == words.end() ? std::string_view() : at->ours;
}

}  // namespace

std::string_view familiar_option(std::string_view theirs) { return ours_of(kOptions, theirs); }
std::string_view familiar_verb(std::string_view theirs) { return ours_of(kVerbs, theirs); }

}  // namespace tern
