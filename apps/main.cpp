// The command: finds the verb, resolves its options, runs it, and turns what was thrown into a message and an exit
// code.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/options.h"
#include "apps/outputs.h"
#include "apps/rank_process.h"
#include "apps/signals.h"
#include "apps/verb_adapt_combine.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"

namespace {

using namespace tern;
using Arguments = std::vector<std::string>;

struct VerbRun {
  std::string_view name;
  int (*run)(const Options&);
};
constexpr VerbRun kRuns[] = {{"demo", run_demo},
                             {"train", run_train},
                             {"adapt", run_adapt},
                             {"adapt merge", run_adapt_merge},
                             {"adapt combine", run_adapt_combine},
                             {"adapt extract", run_adapt_extract},
                             {"new", run_new},
                             {"launch", run_launch},
                             {"generate", run_generate},
                             {"chat", run_chat},
                             {"eval", run_eval},
                             {"embed", run_embed},
                             {"serve", run_serve},
                             {"tokenize", run_tokenize},
                             {"inspect", run_inspect},
                             {"export", run_export},
                             {"quantize", run_quantize},
                             {"plan", run_plan},
                             {"compare", run_compare},
                             {"doctor", run_doctor},
                             {"bench", run_bench},
                             {"bench serve", run_bench_serve},
                             {"profile", run_profile},
                             {"plan calibrate", run_plan_calibrate},
                             {"plan table", run_plan_table}};

bool wants_help(const Arguments& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == "--help" || argument == "-h") return true;
  }
  return false;
}

// The verbs that print what the table says.
int run_table_verb(const OptionTable& table, std::string_view verb, const Arguments& arguments) {
  if (verb == "config") {
    print_out(show_config(table, arguments, process_environment()));
    return 0;
  }
  Arguments given = arguments;
  if (verb == "help" && words_of_verb(table, given) == 2) given = {given[0] + " " + given[1]};
  const Options options = resolve_options(table, verb, given, {});  // help must work whatever the environment says
  if (verb == "help")
    print_out(options.has_positional("TOPIC") ? help_topic(table, options.positional("TOPIC")) : help_overview(table));
  if (verb == "version")
    options.flag("json") ? print_json({{"version", TERN_VERSION}}) : print_out(fmt::format("tern {}\n", TERN_VERSION));
  if (verb == "completion") print_out(completion(table, options.positional("SHELL")));
  if (verb == "man") print_out(man_page(table, TERN_VERSION));
  return 0;
}

// The doctor looks at the environment, so no variable in it may keep the doctor away.
Options options_of(const OptionTable& table, std::string_view verb, const Arguments& arguments) {
  if (verb == "train") return resolve_options(table, verb, arguments, with_launched_ranks(process_environment()));
  if (verb == "doctor") try {
      return resolve_options(table, verb, arguments, process_environment());
    } catch (const Error&) { return resolve_options(table, verb, arguments, {}); }
  return resolve_options(table, verb, arguments, process_environment());
}

int run(const Arguments& arguments) {
  const OptionTable& table = tern_options();
  if (arguments.empty()) {
    print_out(help_overview(table));
    return static_cast<int>(ErrorKind::usage);
  }
  std::string name = arguments.front();
  if (name == "--help" || name == "-h") name = "help";
  if (name == "--version" || name == "-V") name = "version";
  // `tern plan table …`: what goes with a plan stands beside it, with options of its own.
  const size_t words = words_of_verb(table, arguments);
  if (words == 2) name += " " + arguments[1];
  const VerbSpec& verb = find_verb(table, name);
  name = verb.name;
  const Arguments rest(arguments.begin() + static_cast<std::ptrdiff_t>(words), arguments.end());
  if (wants_help(rest)) {
    print_out(help_verb(table, verb));
    return 0;
  }
  for (const VerbRun& entry : kRuns) {
    if (entry.name != name) continue;
    const Options options = options_of(table, name, rest);
    refuse_overwrites(options);
    return entry.run(options);
  }
  return run_table_verb(table, name, rest);
}

// A message may quote what a file holds: no byte of it may steer the terminal.
int fail(int code, std::string_view message) {
  std::fflush(stdout);
  std::string lines;
  for (const std::string_view line : split(message, '\n')) lines += make_printable(line) + "\n";
  std::fprintf(stderr, "tern: %s", lines.c_str());
  return code;
}

// A rank's own log is not to end without a word. What goes to a terminal or a launcher's pipe stands beside rank 0's words.
bool says_into_file() {
  struct stat info {};
  return ::fstat(STDERR_FILENO, &info) == 0 && S_ISREG(info.st_mode);
}

// libgomp's threads spin for milliseconds at every barrier before they sleep. Where another program has the core of the
// one they wait for, training took 14 times as long as with a short spin, which costs nothing on a quiet machine
// (dev/LOG.md). The library reads its settings while it is loaded, before main, so the program starts itself once more;
// if that fails it only is slower beside others.
void shorten_spin(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (::setenv("GOMP_SPINCOUNT", "10000", 1) == 0) ::execv("/proc/self/exe", argv);
}

}  // namespace

int main(int argc, char** argv) {
  shorten_spin(argv);
  if (argc > 0 && *argv[0]) set_program_name(argv[0]);
  explain_file_signals();
  take_signals_aside();
  try {
    return run(Arguments(argv + 1, argv + argc));
  } catch (const tern::Error& error) {
    return fail(static_cast<int>(error.kind()), error.what());
  } catch (const tern::ToldByFirstRank& error) {
    const int code = static_cast<int>(error.kind);
    return says_into_file() ? fail(code, "rank 0 says why this run ends") : code;
  } catch (const std::bad_alloc&) {
    return fail(static_cast<int>(ErrorKind::does_not_fit),
                "out of memory: lower --batch, --seq or --context, or free memory");
  } catch (const std::filesystem::filesystem_error& error) {  // before what it is derived from
    return fail(static_cast<int>(ErrorKind::bad_file),
                fmt::format("{}; is the path right, and may you read it?", error.what()));
  } catch (const std::system_error& error) {  // a thread
    return fail(static_cast<int>(ErrorKind::does_not_fit),
                fmt::format("{}: the system gives no more threads or memory; raise its limit (ulimit -u, ulimit -v) or "
                            "lower --threads",
                            error.what()));
  } catch (const std::exception& error) {  // a Bug, or an exception of a library that nobody expected
    return fail(static_cast<int>(ErrorKind::bug),
                fmt::format("{}; this is a bug in tern, please report it", error.what()));
  }
}
