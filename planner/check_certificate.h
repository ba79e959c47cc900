#pragma once
// Judges a certificate. It shares no code with the search: it prices the assignment and runs the pipeline itself,
// closes what the Lagrangian bound at the certificate's prices closes (any price gives a valid bound, so a wrong one
// only closes less), and runs a plain label programme on the stages that stay open.

#include <cstdint>
#include <string>
#include <string_view>

#include "plan/instance.h"

namespace tern {

struct CertificateVerdict {
  bool accepted = false;
  std::string reason;         // why not
  int64_t stages_open = 0;    // (stage, first layer, last layer) left to labels
  int64_t stages_closed = 0;  // by the Lagrangian bound
};

/// What is checked: the certificate is of this instance; the assignment is one, fits and takes the stated makespan; no
/// assignment that fits is below the stated bound.
CertificateVerdict check_certificate(const Instance&, std::string_view certificate);

/// Of every number of the instance.
uint64_t hash_of(const Instance&);

}  // namespace tern
