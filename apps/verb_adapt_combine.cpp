// tern adapt combine: several adapters of one model become one, in a PEFT directory of its own.
#include "apps/verb_adapt_combine.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "adapt/adapter_file.h"
#include "adapt/combine.h"
#include "apps/adapter_base.h"
#include "apps/common.h"
#include "apps/hf_output.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/publish.h"
#include "base/text.h"
#include "base/units.h"

namespace tern {
namespace {

std::vector<double> weights_from(const Options& o, size_t adapters) {
  std::vector<double> weights;
  for (const std::string& part : o.list("shares"))
    for (const std::string_view number : split(part, ',')) weights.push_back(parse_real(trim(number), "--shares"));
  if (weights.empty()) weights.assign(adapters, 1);
  if (weights.size() != adapters)
    throw Error(ErrorKind::usage, "--shares: {} for {}; give one for each --adapter, in their order",
                counted(static_cast<int64_t>(weights.size()), "number"),
                counted(static_cast<int64_t>(adapters), "adapter"));
  return weights;
}

// What says something to some methods alone.
void refuse_options_of_others(const Options& o, const Combination& c) {
  const bool elects = c.arithmetic == Arithmetic::ties || c.arithmetic == Arithmetic::dare_ties;
  const bool draws = c.arithmetic == Arithmetic::dare_linear || c.arithmetic == Arithmetic::dare_ties;
  const std::pair<const char*, bool> kReads[] = {{"density", prunes(c)},
                                                 {"majority-sign", elects},
                                                 {"seed", draws},
                                                 {"rank", c.how == Combination::How::products}};
  for (const auto& [name, reads] : kReads)
    if (o.given(name) && !reads)
      throw Error(ErrorKind::usage, "--{}: says nothing to --method {}; leave it out", name, o.text("method"));
  if (prunes(c) && !o.has("density"))
    throw Error(ErrorKind::usage, "--density is not given; --method {} keeps this share of each adapter's numbers",
                o.text("method"));
}

CombineSettings settings_from(const Options& o, size_t adapters) {
  CombineSettings s{.combination = *combination_named(o.text("method")), .weights = weights_from(o, adapters)};
  refuse_options_of_others(o, s.combination);
  if (o.has("density")) s.density = o.real("density");
  s.sign = o.text("majority-sign") == "frequency" ? MajoritySign::frequency : MajoritySign::total;
  if (o.has("rank")) s.rank = o.integer("rank");
  s.seed = static_cast<uint64_t>(o.integer("seed"));
  return s;
}

std::vector<AdapterFile> read_all(const std::vector<std::string>& dirs) {
  std::vector<AdapterFile> files;
  for (const std::string& dir : dirs) {
    files.push_back(read_adapter_file(dir));
    const std::string &first = files.front().config.base_model, &base = files.back().config.base_model;
    if (base != first && !names_one_model(base, first))
      log_warn("{} was trained on '{}', {} on '{}'", dir, base, dirs.front(), first);
  }
  return files;
}

}  // namespace

int run_adapt_combine(const Options& options) {
  apply_threads(options);
  if (!options.has("output")) throw Error(ErrorKind::usage, "--output is not given; name the directory to write");
  const std::vector<std::string>& dirs = options.list("adapter");
  if (dirs.empty()) throw Error(ErrorKind::usage, "--adapter is not given; name each adapter's directory");
  const std::string out = options.text("output");
  const CombineSettings settings = settings_from(options, dirs.size());
  check_hf_output(out);
  const std::vector<AdapterFile> files = read_all(dirs);
  std::vector<AdapterMatrices> adapters;
  for (const AdapterFile& f : files) adapters.push_back(f.matrices);
  const Combined combined = combine_adapters(adapters, settings);
  const PeftConfig config = combined_config(files, combined.matrices);
  const DType dtype = combined_dtype(files);
  OutputDirectory output(real_io(), out);
  write_adapter_file(combined.matrices, config, dtype, output.temporary(), real_io());
  output.publish();
  if (options.flag("json")) {
    print_json({{"adapters", dirs},
                {"weights", settings.weights},
                {"method", options.text("method")},
                {"output", out},
                {"dtype", name_of(dtype)},
                {"rank", config.rank},
                {"matrices", combined.matrices.size()},
                {"norms", combined.norms.each},
                {"norm", combined.norms.combined}});
    return 0;
  }
  std::vector<std::string> norms;
  for (const double n : combined.norms.each) norms.push_back(fmt::format("{:.4g}", n));
  print_out(fmt::format(
      "{}  {} of rank {} or less, in {}; what they add to the weights has the norm {}, what it adds {:.4g}\n", out,
      counted(static_cast<int64_t>(combined.matrices.size()), "adapted module"), config.rank, name_of(dtype),
      join(norms, ", "), combined.norms.combined));
  return 0;
}

}  // namespace tern
