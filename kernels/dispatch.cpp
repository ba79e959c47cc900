#include "kernels/dispatch.h"

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"
#include "kernels/isa_selfcheck.h"

namespace tern {
namespace {

constexpr Isa kAll[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16, Isa::amx_bf16};
constexpr Isa kIntel[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::avx512_vnni, Isa::amx_bf16};

bool is_compiled(Isa isa) {
#if !defined(__x86_64__)
  return isa == Isa::portable;
#elif defined(TERN_WITHOUT_AVX512)
  return isa == Isa::portable || isa == Isa::avx2;
#else
  static_cast<void>(isa);
  return true;
#endif
}

#if defined(__x86_64__)

/// CPUID leaf 7: tiles (edx bit 24), their bf16 (22) and int8 products (25); XCR0 bits 17 and 18: the system saves tile state.
bool processor_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 24 & 1) == 0 || (d >> 22 & 1) == 0 || (d >> 25 & 1) == 0)
    return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return false;  // OSXSAVE: xgetbv may be asked
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3) == 3;
}

/// Linux keeps tile state from a process until it asks, once for all of its threads. Empty, or why it is refused.
std::string ask_for_tiles() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return "";
  return fmt::format("the system refuses tile state to this process ({})", std::strerror(errno));
#else
  return "asking for tile state is known for Linux only";
#endif
}

bool has_f16c() {  // clang 16 does not know the name
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}

/// What the processor has and the operating system saves (the compiler's runtime reads both).
bool machine_has(Isa isa) {
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("fma");
  const bool with_vnni = avx512 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
  const bool with_bf16 = with_vnni && __builtin_cpu_supports("avx512bf16");
  switch (isa) {
    case Isa::portable:
      return true;
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case Isa::avx512:
      return avx512;
    case Isa::avx512_vnni:
      return with_vnni;
    case Isa::avx512_bf16:
      return with_bf16;
    case Isa::amx_bf16:
      return with_bf16 && processor_has_amx();
  }
  return false;
}
bool is_intel() {
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
}
#else
bool is_intel() { return false; }
bool machine_has(Isa isa) { return isa == Isa::portable; }
std::string ask_for_tiles() { return ""; }
#endif

}  // namespace

namespace {

/// What is known before a kernel has run.
IsaStatus look_at(Isa isa) {
  IsaStatus s{.isa = isa, .compiled = is_compiled(isa), .supported = false, .self_test_passed = false, .reason = ""};
  if (!s.compiled) {
    s.reason = "not compiled into this program";
    return s;
  }
  s.supported = machine_has(isa);
  if (!s.supported) {
    s.reason = "this processor or operating system does not have it";
    return s;
  }
  if (isa == Isa::amx_bf16)
    if (const std::string refusal = ask_for_tiles(); !refusal.empty()) {
      s.supported = false;
      s.refused = true;
      s.reason = refusal;
    }
  return s;
}

void add_result(IsaStatus& s, const std::string& failure) {
  s.self_test_passed = failure.empty();
  s.reason = failure.empty() ? "passed its self-test in every thread" : "failed its self-test: " + failure;
}

}  // namespace

IsaStatus examine_isa(Isa isa, const IsaKernels& kernels) {
  IsaStatus s = look_at(isa);
  if (s.supported) add_result(s, self_test(kernels, isa == Isa::portable));
  return s;
}

namespace {

/// What was found out about sets so far. A start needs the best set that runs and tests no
/// other; whoever asks about all has the rest tested then.
class Examined {
 public:
  /// Tests those of `wanted` that were not tested before, in one copy of the process.
  std::vector<IsaStatus> operator()(std::span<const Isa> wanted) {
    const std::lock_guard lock(mutex_);
    std::vector<IsaStatus> fresh;
    std::vector<IsaTest> tests;
    for (const Isa isa : wanted) {
      if (known_.contains(isa)) continue;
      fresh.push_back(look_at(isa));
      if (fresh.back().supported) tests.push_back({kernels_of(isa), isa == Isa::portable});
    }
    const std::vector<std::string> failures = tests.empty() ? std::vector<std::string>{} : self_tests(tests);
    size_t next = 0;
    for (IsaStatus& s : fresh) {
      if (s.supported) add_result(s, failures[next++]);
      known_.emplace(s.isa, s);
    }
    std::vector<IsaStatus> all;
    for (const Isa isa : wanted) all.push_back(known_.at(isa));
    return all;
  }
  std::vector<IsaStatus> known() {
    const std::lock_guard lock(mutex_);
    std::vector<IsaStatus> all;
    for (const auto& [isa, status] : known_) all.push_back(status);
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<Isa, IsaStatus> known_;
};
Examined& examined() {  // hidden global: a fact of the machine
  static Examined all;
  return all;
}
IsaStatus status_of(Isa isa) { return examined()({&isa, 1}).front(); }

bool runs(const IsaStatus& s) { return s.compiled && s.supported && s.self_test_passed; }

std::atomic<int> active{-1};  // hidden global: every kernel call asks for it, and it cannot change while they run

}  // namespace

std::span<const Isa> isas_by_preference(bool intel) {
  return intel ? std::span<const Isa>(kIntel) : std::span<const Isa>(kAll);
}
std::span<const Isa> isas_by_preference() {
  static const bool intel = is_intel();
  return isas_by_preference(intel);
}

Isa choose_isa(std::span<const IsaStatus> all, std::string_view wanted) {
  if (!wanted.empty()) {
    std::string known;
    for (const IsaStatus& s : all) {
      if (name_of(s.isa) == wanted) {
        if (runs(s)) return s.isa;
        throw Error(ErrorKind::usage, "TERN_ISA={}: cannot run here: {}; unset it to let tern choose", wanted,
                    s.reason);
      }
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(s.isa));
    }
    throw Error(ErrorKind::usage, "TERN_ISA={}: no such instruction set; known are {}", wanted, known);
  }
  for (size_t i = all.size(); i-- > 0;)
    if (runs(all[i])) return all[i].isa;
  throw Error(ErrorKind::bug, "kernels: even the portable kernels fail their self-test ({}); please report it",
              all.front().reason);
}

Isa chosen_isa() {
  static const Isa chosen = [] {
    const char* named = std::getenv("TERN_ISA");
    const std::string_view wanted = named ? named : "";
    std::vector<IsaStatus> all;
    for (const Isa isa : isas_by_preference()) all.push_back({.isa = isa});
    for (size_t i = all.size(); i-- > 0;) {
      if (!wanted.empty() && name_of(all[i].isa) != wanted) continue;
      all[i] = status_of(all[i].isa);
      if (runs(all[i])) break;
    }
    return choose_isa(all, wanted);
  }();
  return chosen;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_vnni:
      return "avx512_vnni";
    case Isa::avx512_bf16:
      return "avx512_bf16";
    case Isa::amx_bf16:
      return "amx_bf16";
  }
  return "unknown";
}

Isa active_isa() {
  const int now = active.load(std::memory_order_relaxed);
  if (now >= 0) return static_cast<Isa>(now);
  active.store(static_cast<int>(chosen_isa()), std::memory_order_relaxed);
  return chosen_isa();
}

std::vector<IsaStatus> isa_report() { return examined()(isas_by_preference()); }
std::vector<IsaStatus> examined_isas() { return examined().known(); }

std::vector<std::string> describe_fallbacks(const std::vector<IsaStatus>& report, Isa in_use) {
  std::vector<std::string> told;
  const std::span<const Isa> order = isas_by_preference();
  const auto is_better = [&](Isa isa) { return std::ranges::find(order, isa) > std::ranges::find(order, in_use); };
  for (const IsaStatus& s : report)
    if (s.compiled && is_better(s.isa) && (s.refused || (s.supported && !s.self_test_passed)))
      told.push_back(fmt::format("kernels {}: {}; {} is used, which is slower ({} says more)", name_of(s.isa), s.reason,
                                 name_of(in_use), "tern doctor"));
  return told;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> v;
  for (const IsaStatus& s : isa_report())
    if (runs(s)) v.push_back(s.isa);
  return v;
}

void force_isa(Isa isa) {
  if (const IsaStatus s = status_of(isa); !runs(s))
    throw Error(ErrorKind::usage, "instruction set {} cannot run here: {}", name_of(isa), s.reason);
  active.store(static_cast<int>(isa), std::memory_order_relaxed);
}

}  // namespace tern
