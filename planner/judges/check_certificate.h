#pragma once
// Judges a certificate. The judge shares no code with the search. It prices the assignment and runs the pipeline itself. With the
// certificate's prices it computes Lagrangian bounds and closes stages by them; any price gives a valid bound, so a wrong price only
// closes fewer stages. For the stages that stay open it makes labels with a plain dynamic programme.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/instance.h"

namespace tern {

/// The judgement.
struct CertificateVerdict {
  bool accepted = false;
  std::string reason;         // why it is not accepted
  int64_t stages_open = 0;    // triples (stage, first layer, last layer) that are left to labels
  int64_t stages_closed = 0;  // triples that the Lagrangian bound closes
};

/// Judges a certificate. It checks that: the certificate is of this instance; the assignment is valid, fits and takes the
/// stated makespan; no assignment that fits is below the stated bound.
CertificateVerdict check_certificate(const Instance&, std::string_view certificate);

/// Whether it is proven that every assignment that fits has a makespan of at least `bound`: by the Lagrangian bound at `prices`
/// (of a byte, per stage, as in a certificate), and by labels of the stages that this bound leaves open. False also if the proof
/// would take more than `most_labels` labels. Only for gpipe and 1f1b with one chunk per stage.
bool no_assignment_below(const Instance&, int64_t bound, const std::vector<std::vector<int64_t>>& prices,
                         int64_t most_labels);

/// A hash of every number of the instance.
uint64_t hash_of(const Instance&);

}  // namespace tern
