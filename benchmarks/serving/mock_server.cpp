// A server whole, socket to scheduler, on a back end that computes nothing: a step takes a given time whatever is in it. What is
// measured at it is what serving itself takes. mock_server [TOKENS_PER_SECOND [RUNNING]]; it tells its address and serves until
// SIGTERM.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/source_dir_testing.h"
#include "infer/load.h"
#include "serve/service.h"

namespace {

using namespace tern;

std::atomic<bool> stop_asked = false;

// Rows of scores of which one is possible, which depends on the place. Steps begin at even times.
BatchExecutor paced_model(int64_t vocab, double step_s) {
  const auto scores = std::make_shared<std::vector<float>>();
  return [=, next_ns = int64_t{0}](const Batch& batch, const KvPool&) mutable {
    scores->clear();
    for (const Work& work : batch) {
      if (!work.wants_logits) continue;
      scores->resize(scores->size() + static_cast<size_t>(vocab), -std::numeric_limits<float>::infinity());
      (*scores)[scores->size() - static_cast<size_t>(vocab - 300 - (work.begin + work.count) % 50)] = 9;
    }
    const int64_t now_ns = real_clock().now_ns(), step_ns = static_cast<int64_t>(1e9 * step_s);
    next_ns = (now_ns > next_ns + step_ns ? now_ns : next_ns) + step_ns;  // behind a pause: a whole step
    real_clock().sleep_ns(std::max<int64_t>(next_ns - now_ns, 0));
    return Tensor::borrow(DType::f32, {static_cast<int64_t>(scores->size()) / vocab, vocab}, scores->data(), scores);
  };
}

}  // namespace

int main(int argc, char** argv) {
  const double tokens_per_s = argc > 1 ? std::atof(argv[1]) : 20;
  const int64_t running = argc > 2 ? std::atoll(argv[2]) : 512;
  constexpr int64_t kContext = 512, kPage = 16;
  const ModelDescription model = describe_model(source_dir() + "/examples/novels-6m", std::nullopt);
  ServedModel served;
  served.name = "mock";
  served.tokenizer = &*model.tokenizer;
  served.vocab = model.spec.vocab, served.context = kContext;
  served.why_no_chat = "no template";
  served.why_no_embeddings = "none";
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, [](int) { stop_asked = true; });
  Arena arena;
  KvPool pool({.layers = {{1, 1}}, .page_tokens = kPage, .type = KvType::f32}, running * kContext / kPage, arena);
  Engine engine(pool, paced_model(served.vocab, 1 / tokens_per_s), served.tokenizer,
                {{.token_budget = 8192, .chunk = 8192 - running, .max_running = running}, kContext, true, {}},
                real_clock());
  ServiceSettings settings{.port = 0, .http = {.connections = 4096}, .rules = {}, .version = "mock"};
  settings.rules.max_running = running;
  Service service(settings);
  const DrivenModel only{.offer = &served, .drive = {.engine = &engine}};
  service.run({&only, 1}, stop_asked, [&] {
    std::printf("http://127.0.0.1:%d\n", service.port());
    std::fflush(stdout);
  });
  return 0;
}
