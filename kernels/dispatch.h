#pragma once
// Which instruction set the CPU kernels run on. Each kernels/cpu/*_isa.cpp is compiled once per instruction
// set. One set is chosen when active_isa() is first called: the best that the machine has and that passes its self-test
// against the plain twins, or the one TERN_ISA names. Bits may differ between sets, never within one.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// avx512_vnni: products of integers and look-ups of bytes beside avx512 (VNNI, VBMI); avx512_bf16: vdpbf16ps as well; amx_bf16: tiles.
enum class Isa { portable, avx2, avx512, avx512_vnni, avx512_bf16, amx_bf16 };
/// All sets; the last one that runs here is preferred. That is their order above, but on Intel's processors avx512_vnni stands behind avx512_bf16:
/// an Emerald Rapids takes four times as long for vdpbf16ps as for a multiply-add, of which two do the same work (a Sapphire Rapids was found slow,
/// too; others are taken for alike).
std::span<const Isa> isas_by_preference(bool intel);
std::span<const Isa> isas_by_preference();  // of this processor

struct IsaStatus {
  Isa isa;
  bool compiled = false, supported = false, self_test_passed = false;
  bool refused = false;     // the processor has it, the system forbids its use to this process; then not `supported`
  std::string reason = {};  // why it runs or does not
};

std::string_view name_of(Isa);
/// The set in use. Chosen on first call (thread-safe). Errors: usage if TERN_ISA names a set that is unknown or cannot
/// run here.
Isa active_isa();
/// The set that was chosen at first use; force_isa does not change it. Errors: as active_isa.
Isa chosen_isa();
/// The status of every set that this binary knows, for `tern doctor`. Sets that the choice did not need to test are tested now.
std::vector<IsaStatus> isa_report();
/// The status of each set examined so far, also if unsupported. The choice examines its set and, without TERN_ISA, all better ones.
std::vector<IsaStatus> examined_isas();
/// Messages for a user whose kernels run on `in_use`: one sentence for each better
/// set that the processor has but that cannot be used; empty if there is none.
std::vector<std::string> describe_fallbacks(const std::vector<IsaStatus>&, Isa in_use);
/// The sets that may run here, portable first: tests run each in turn.
std::vector<Isa> available_isas();
/// Switches to a set for all later calls. For tests; not while kernels run. Errors: usage if the set cannot run here.
void force_isa(Isa);

struct IsaKernels;
/// The two steps of the choice, separate so that tests can make either fail. examine_isa: whether one set's kernels
/// run here and agree with the twins. choose_isa: of sets by preference, the one named `wanted` or, if that is empty, the last that runs.
IsaStatus examine_isa(Isa, const IsaKernels&);
Isa choose_isa(std::span<const IsaStatus>, std::string_view wanted);

}  // namespace tern
