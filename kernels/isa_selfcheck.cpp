#include "kernels/isa_selfcheck.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/ref/matmul_ref.h"

namespace tern {
namespace {

constexpr int64_t kM = 40, kN = 70, kK = 37;  // full and partial tiles, a partial panel, an odd pair

/// Small whole numbers over 8: products and sums are exact in f32 and in bf16 inputs, so any order gives the same bits.
double value(int64_t i, int64_t salt) { return static_cast<double>((i * 7 + salt * 5) % 23 - 11) / 8; }

template <class T>
T make(double x);
template <>
float make(double x) {
  return static_cast<float>(x);
}
template <>
bf16 make(double x) {
  return to_bf16(static_cast<float>(x));
}

/// padding: elements to which the rows and columns of a packed weight are padded at most.
template <class T, class Pack, class Exact, class Tn>
std::string compare(int64_t padding, Pack pack, Exact exact, Tn tn, const char* name) {
  std::vector<double> x(kM * kK), w(kN * kK), want(kM * kN, 0.5);
  std::vector<T> x_T(x.size()), w_T(w.size());
  for (size_t i = 0; i < x.size(); ++i) x_T[i] = make<T>(x[i] = value(static_cast<int64_t>(i), 1));
  for (size_t i = 0; i < w.size(); ++i) w_T[i] = make<T>(w[i] = value(static_cast<int64_t>(i), 2));
  multiply_ref(x, w, {}, kM, kN, kK, true, want);
  std::vector<T> packed((kN + padding) * (kK + padding));
  pack(w_T.data(), kN, kK, packed.data());
  const T* no_bias = nullptr;
  for (const int64_t rows : {kM, int64_t{1}}) {  // few rows may have a kernel of their own
    std::vector<float> got(static_cast<size_t>(rows * kN), 0.5f);
    exact(x_T.data(), packed.data(), no_bias, rows, kN, kK, true, got.data());
    for (size_t i = 0; i < got.size(); ++i)
      if (!(got[i] == want[i])) return fmt::format("{} product, element {}: got {}, want {}", name, i, got[i], want[i]);
  }

  std::vector<double> dw(kK * kK, -0.25);
  std::vector<float> dw_got(dw.size(), -0.25f);
  multiply_tn_ref(x, x, kM, kK, kK, dw);
  tn(x_T.data(), x_T.data(), kM, kK, kK, dw_got.data());
  for (size_t i = 0; i < dw.size(); ++i)
    if (!(dw_got[i] == dw[i]))
      return fmt::format("{} weight gradient, element {}: got {}, want {}", name, i, dw_got[i], dw[i]);
  return "";
}

std::string compare_all(Isa isa) {
  const MatmulTable& t = TERN_TABLE_OF(matmul_table, isa);
  std::string failure = compare<float>(t.panel, t.pack_f32, t.exact_f32, t.tn_f32, "f32");
  if (!failure.empty()) return failure;
  if (!has_tiles(isa)) return compare<bf16>(t.panel, t.pack_bf16, t.exact_bf16_to_f32, t.tn_bf16, "bf16");
  const auto keep = [](const bf16* w, int64_t n, int64_t k, bf16* packed) { std::copy_n(w, n * k, packed); };
  const auto exact = [isa](const bf16* x, const bf16* w, const bf16* bias, int64_t m, int64_t n, int64_t k, bool add,
                           float* y) {
    const WeightRows<bf16> rows{w, n};
    tile_forward<float>(isa, x, {&rows, 1}, bias, m, n, k, add, y);
  };
  const auto tn = [isa](auto... a) { tile_tn(isa, a...); };
  return compare<bf16>(0, keep, exact, tn, "bf16");
}

// An instruction that is announced and missing ends a thread with SIGILL: during the test that is an answer.
thread_local sigjmp_buf back;
thread_local volatile std::sig_atomic_t in_test = 0;
void on_illegal_instruction(int signal) {
  if (in_test) siglongjmp(back, 1);
  std::signal(signal, SIG_DFL);  // not ours: the instruction comes again and ends the program as ever
}

/// Holds the handler for as long as it lives.
class CatchIllegalInstruction {
 public:
  CatchIllegalInstruction() {
    struct sigaction catching = {};
    catching.sa_handler = on_illegal_instruction;
    catching.sa_flags = SA_NODEFER;  // the signal mask is not restored by the jump
    sigaction(SIGILL, &catching, &before_);
  }
  ~CatchIllegalInstruction() { sigaction(SIGILL, &before_, nullptr); }
  CatchIllegalInstruction(const CatchIllegalInstruction&) = delete;
  CatchIllegalInstruction& operator=(const CatchIllegalInstruction&) = delete;

 private:
  struct sigaction before_ = {};
};

/// On this thread. What a jump skips is lost, a few kilobytes once.
void compare_on_this_thread(Isa isa, std::string* failure) {
  if (sigsetjmp(back, 0) == 0) {
    in_test = 1;
    *failure = compare_all(isa);
  } else {
    *failure = "illegal instruction";
  }
  in_test = 0;
}

}  // namespace

std::string self_test(Isa isa) {
  const CatchIllegalInstruction guard;
  std::vector<std::string> failures(omp_get_max_threads());
#pragma omp parallel
  {
    std::string failure;
    compare_on_this_thread(isa, &failure);
    if (!failure.empty()) failures[omp_get_thread_num()] = fmt::format("thread {}: {}", omp_get_thread_num(), failure);
  }
  for (const std::string& f : failures)
    if (!f.empty()) return f;
  return "";
}

}  // namespace tern
