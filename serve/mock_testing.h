#pragma once
// Tests only: a back end without a model.

#include "base/error.h"
#include "base/source_dir_testing.h"
#include "serve/client_testing.h"

namespace tern {

// A step takes `step_us`. The token that each sample draws depends on its position alone.
struct Mock {
  ModelDescription model = describe_model(source_dir() + "/examples/novels-6m", std::nullopt);
  ServedModel served;
  std::atomic<int> step_us = 0;
  std::atomic<bool> fails = false;
  Arena arena;
  KvShape shape{.layers = {{1, 1}}, .page_tokens = 16, .type = KvType::f32};
  Mock() {
    served.name = "mock";
    served.tokenizer = &*model.tokenizer;
    served.vocab = model.spec.vocab, served.context = 512;
    served.why_no_chat = "no template";
    served.why_no_embeddings = "none";
  }
  BatchExecutor executor() {
    return [this](const Batch& batch, const KvPool&) {
      if (step_us > 0) ::usleep(static_cast<useconds_t>(step_us.load()));
      if (fails) throw Error(ErrorKind::does_not_fit, "planted");
      const auto logits = std::make_shared<std::vector<float>>();
      for (const Work& work : batch) {
        if (!work.wants_logits) continue;
        logits->resize(logits->size() + static_cast<size_t>(served.vocab));
        (*logits)[logits->size() - static_cast<size_t>(served.vocab) +
                  static_cast<size_t>(300 + (work.begin + work.count) % 50)] = 9;
      }
      return Tensor::borrow(DType::f32, {static_cast<int64_t>(logits->size()) / served.vocab, served.vocab},
                            logits->data(), logits);
    };
  }
};
inline constexpr const char* kEndless = R"({"prompt":"a b c","max_tokens":400,"stream":true})";
inline constexpr const char* kShort = R"({"prompt":"a b c","max_tokens":4})";

}  // namespace tern
