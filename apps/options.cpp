// The table of verbs and options: flags, TERN_ variables, recipe keys, help, man page and completion all come from
// here; the rows stand in apps/options/. A new row is a decision: it needs a default that works, a line of help, and its name
// in apps/options_frozen.txt.
#include "apps/options.h"

#include <iterator>

#include "apps/options/rows.h"

namespace tern {
namespace {

// A verb's help has its options in this order: where verbs share a row, what stands before it in the help of one of them
// stands before it here.
constexpr OptionRows (*kOptionParts[])() = {
    training_data_rows, tokenize_output_rows, demo_rows,  model_file_rows,     quantize_rows,    inspect_rows,
    new_model_rows,     adapt_combine_rows,   adapt_rows, eval_text_rows,      training_rows,    inference_type_rows,
    rank_rows,          robust_rows,          outer_rows, async_rows,          launch_rows,      machine_rows,
    training_run_rows,  generation_rows,      guess_rows, chat_rows,           serve_rows,       eval_rows,
    embed_rows,         tokenize_rows,        plan_rows,  plan_inference_rows, calibration_rows, bench_serve_rows,
    bench_rows,         profile_rows,         json_rows,
};

OptionRows join_parts() {
  OptionRows all;
  for (const auto part : kOptionParts) {
    OptionRows rows = part();
    all.insert(all.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  }
  return all;
}

}  // namespace

const OptionTable& tern_options() {
  static const OptionTable table = {
      .verbs = verb_rows(),
      .options = join_parts(),
      .environment =
          {{"TERN_STORE", "set by tern launch for its ranks: where they find each other"},
           {"TERN_RUN", "set by tern launch for its ranks: the run they are of"},
           {"TERN_FAULT",
            "what goes wrong, to try how a run ends: die@RANK@N, stop@RANK@N, partition@RANK@N, corrupt@RANK@N[@BIT] "
            "(at "
            "the rank's message N); slow@RANK@BYTES (a second); RANK * is all, several with commas between them; not "
            "in "
            "restarts after a loss"},
           {"TERN_DATA", "directory of test data (tests only; --data is TERN_DATA_FILE)"},
           {"TERN_ISA", "instruction set of the CPU kernels (see tern doctor); not set: the best that works here"},
           {"TERN_LOG", "least level to tell on standard error: error, warn, info (default) or debug"}},
  };
  return table;
}

}  // namespace tern
