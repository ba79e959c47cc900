#pragma once
// A certificate: the answer of a search, and the prices that its bound rests on. check_certificate.h judges it; only
// tests write one.

#include <string>

#include "planner/instance/search.h"

namespace tern {

/// The certificate as lines of words: the version, a hash of the instance, the makespan, the bound of the model, the
/// assignment, and for each stage some prices of a byte (in ps per 2^20 bytes): 0, and prices near the one that gives the highest
/// Lagrangian bound for an even share of the layers. Errors: usage, for a result without an assignment, or a schedule that the
/// checker does not know (it knows gpipe, 1f1b).
std::string write_certificate(const Instance&, const SearchResult&);

}  // namespace tern
