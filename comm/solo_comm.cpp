#include "comm/comm.h"

namespace tern {

namespace {

class SoloComm final : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce_sum(std::span<Tensor* const>) override {}
  void barrier() override {}
  CommBytes bytes() const override { return {}; }
};

}  // namespace

std::unique_ptr<Comm> make_solo_comm() { return std::make_unique<SoloComm>(); }

}  // namespace tern
