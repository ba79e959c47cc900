#include "planner/judges/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "planner/instance/windows_impl.h"
#include "planner/judges/check_certificate.h"

namespace tern {

std::string write_certificate(const Instance& in, const SearchResult& result) {
  if (!result.found) throw Error(ErrorKind::usage, "certificate: the search found no assignment to certify");
  if (!traits_of(in.schedule).certified)
    throw Error(ErrorKind::usage, "certificate: schedule {}; the checker knows gpipe and 1f1b", name_of(in.schedule));
  std::string text = fmt::format("tern-certificate 1\ninstance {:016x}\nmakespan {}\nbound {}\nstage", hash_of(in),
                                 result.makespan_ps, std::min(result.model_bound_ps, result.makespan_ps));
  for (const int s : result.assignment.stage) text += fmt::format(" {}", s);
  text += "\nstrategy";
  for (const int k : result.assignment.strategy) text += fmt::format(" {}", k);
  const Chain chain = make_chain(in, Objective::simulated);
  const IntervalBounds bounds(chain, result.makespan_ps);
  for (int i = 0; i < in.num_stages; ++i) {
    text += fmt::format("\nprices {}", i);
    for (const double lambda : bounds.lambdas(i)) text += fmt::format(" {}", std::llround(lambda * 1048576));
  }
  return text + "\nend\n";
}

}  // namespace tern
