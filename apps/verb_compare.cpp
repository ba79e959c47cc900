// tern compare A B: two training runs side by side.
#include <fmt/core.h>

#include <string>

#include "apps/common.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "report/compare_runs.h"
#include "report/run_log.h"

namespace tern {

int run_compare(const Options& options) {
  const std::string& output = options.text("output");
  const bool csv = output.ends_with(".csv");
  if (!output.empty() && !csv && !output.ends_with(".html"))
    throw Error(ErrorKind::usage, "--output {}: expected a name that ends in .html (plots) or .csv (numbers)", output);

  const RunLog a = read_run(options.positional("A")), b = read_run(options.positional("B"));
  const std::vector<TagComparison> tags = compare_runs(a, b);
  if (options.flag("json")) {
    print_out(compare_json(a, b, tags) + "\n");
  } else {
    print_out(fmt::format("A: {}\nB: {}\n\n", a.name, b.name));
    const Table settings = settings_table(a, b);
    print_out(settings.rows.empty() ? settings_note(a, b) + "\n\n" : table_text(settings) + "\n");
    print_out(table_text(outcome_table(tags)));
    if (const Table cost = cost_table(tags); !cost.rows.empty()) print_out("\n" + table_text(cost));
  }
  for (const RunLog* run : {&a, &b})
    if (run->log.torn)
      log_info("{}: the last line of its log is cut short (a killed or running writer); it was left out", run->name);
  if (!output.empty()) {
    write_file_atomically(real_io(), output, csv ? compare_csv(a, b, tags) : compare_html(a, b, tags));
    log_info("wrote {}", output);
  }
  return 0;
}

}  // namespace tern
