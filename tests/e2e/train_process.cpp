#include "tests/e2e/train_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/clock.h"
#include "base/io.h"
#include "base/rng.h"
#include "formats/data/token_data_testing.h"

namespace tern {
namespace {

constexpr const char* kTinyConfig =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 16,
 "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu"})";

void write_tokens(const std::string& path) {
  std::vector<uint16_t> tokens;
  std::vector<int64_t> documents = {0};
  for (uint64_t d = 0; tokens.size() < 4000; ++d) {
    const uint64_t length = 3 + random_u64({1, 1}, d) % 88;
    uint16_t id = static_cast<uint16_t>(d % 64);
    for (uint64_t i = 0; i < length; ++i) {  // something to learn: mostly id + 3
      tokens.push_back(id);
      id = static_cast<uint16_t>(
          (random_u64({1, 2}, tokens.size()) % 4 == 0 ? random_u64({1, 3}, tokens.size()) : id + 3) % 64);
    }
    documents.push_back(static_cast<int64_t>(tokens.size()));
  }
  write_token_file(path, tokens, documents, 64);
}

// One cache for all runs of this process, so that the machine's peak is probed once.
struct CacheHome {
  std::string path = (std::filesystem::temp_directory_path() / fmt::format("tern-e2e-cache-{}", ::getpid())).string();
  CacheHome() { ::setenv("XDG_CACHE_HOME", path.c_str(), 1); }
  ~CacheHome() { remove_all(real_io(), path); }
};

}  // namespace

TinyRun::TinyRun()
    : root_((std::filesystem::temp_directory_path() / fmt::format("tern-e2e-{}-{}", ::getpid(), real_clock().now_ns()))
                .string()) {
  make_dirs(real_io(), root_);
  write_file_atomically(real_io(), root_ + "/config.json", std::string_view(kTinyConfig));
  write_tokens(root_ + "/data.tokens");
  static const CacheHome cache;
}

TinyRun::~TinyRun() { remove_all(real_io(), root_); }

std::string TinyRun::out(int number) const { return fmt::format("{}/out-{}", root_, number); }

std::vector<std::string> TinyRun::command(const std::string& out, const std::vector<std::string>& more) const {
  // An option may be given once: what `more` says replaces what stands here.
  const std::vector<std::pair<std::string, std::string>> usual = {{"--data", root_ + "/data.tokens"},
                                                                  {"--valid-data", root_ + "/data.tokens"},
                                                                  {"--output", out},
                                                                  {"--seq", "16"},
                                                                  {"--batch", "4"},
                                                                  {"--micro-batch", "2"},
                                                                  {"--steps", "60"},
                                                                  {"--checkpoint-every", "3"},
                                                                  {"--eval-every", "20"},
                                                                  {"--eval-batches", "1"},
                                                                  {"--log-every", "5"},
                                                                  {"--learning-rate", "1e-2"},
                                                                  {"--threads", "1"}};
  std::vector<std::string> all = {TERN_PROGRAM, "train", root_ + "/config.json", "--from-scratch"};
  for (const auto& [name, value] : usual)
    if (std::find(more.begin(), more.end(), name) == more.end()) all.insert(all.end(), {name, value});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Child::Child(const std::vector<std::string>& command, const std::string& error_file) {
  std::vector<char*> argv;
  for (const std::string& part : command) argv.push_back(const_cast<char*>(part.c_str()));
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    const int errors = ::open(error_file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600),
              nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, 0), ::dup2(nothing, 1), ::dup2(errors, 2);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
}

Child::~Child() {
  if (ended_ || pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  wait();
}

bool Child::running() {
  if (!ended_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
  return !ended_;
}

void Child::signal(int number) {
  if (!ended_) ::kill(pid_, number);
}

int Child::wait() {
  if (!ended_ && ::waitpid(pid_, &status_, 0) == pid_) ended_ = true;
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

int run_to_end(const std::vector<std::string>& command, const std::string& root, std::string* errors) {
  const std::string file = root + "/errors";
  const int code = Child(command, file).wait();
  if (errors) *errors = real_io().read(file);
  return code;
}

std::string final_bits(const std::string& out) {
  return real_io().read(out + "/model/model.safetensors") +
         real_io().read(out + "/checkpoints/step-60/rank-0.safetensors");
}

}  // namespace tern
