#pragma once
// The rows of the option table (apps/options.h). Each verb, or each group of similar verbs, has a file. apps/options.cpp
// joins the lists of these functions; a verb's help has the order of that joined list.

#include <string_view>
#include <vector>

#include "base/options.h"

namespace tern {

using OptionRows = std::vector<OptionSpec>;

inline constexpr double kMaxCount = 2147483647;  // sizes that are multiplied with each other stay below 2^31

/// The verbs in the order of `tern help`.
std::vector<VerbSpec> verb_rows();

OptionRows training_data_rows();    // train, adapt: data, tokenizer and run directory
OptionRows training_rows();         // train, adapt: steps and sequences, learning rate, update rule, arithmetic
OptionRows training_run_rows();     // train, adapt: checkpoints, evaluation, logs
OptionRows rank_rows();             // train: ranks that take every step together
OptionRows robust_rows();           // train: ranks of which some may send wrong values (Byzantine)
OptionRows outer_rows();            // train: ranks that average their weights rarely
OptionRows async_rows();            // train: a server and its workers
OptionRows launch_rows();           // launch, and what train has in common with it
OptionRows adapt_rows();            // adapt
OptionRows adapt_combine_rows();    // adapt combine, adapt extract
OptionRows new_model_rows();        // new
OptionRows model_file_rows();       // export, adapt merge
OptionRows inspect_rows();          // inspect
OptionRows quantize_rows();         // quantize
OptionRows demo_rows();             // demo, compare
OptionRows inference_type_rows();   // generate, chat, eval, embed, serve: the type and the seed
OptionRows generation_rows();       // generate, and how a model answers in chat, eval and serve
OptionRows guess_rows();            // generate, chat, serve: speculative decoding
OptionRows chat_rows();             // chat, and conversations in train, adapt, tokenize and serve
OptionRows serve_rows();            // serve
OptionRows eval_text_rows();        // eval: the text, how much of it at a time
OptionRows eval_rows();             // eval: windows and questions
OptionRows embed_rows();            // embed
OptionRows tokenize_output_rows();  // tokenize: where it writes
OptionRows tokenize_rows();         // tokenize: what it does
OptionRows plan_rows();             // plan
OptionRows plan_inference_rows();   // plan --inference
OptionRows calibration_rows();      // plan calibrate, plan table
OptionRows bench_serve_rows();      // bench serve
OptionRows bench_rows();            // bench
OptionRows profile_rows();          // profile
OptionRows machine_rows();          // threads and memory, for all verbs that compute
OptionRows json_rows();             // --json, for all verbs that print an answer

/// The options of all update rules, each name once, as they follow --optimizer. The texts live as long as the program.
OptionRows update_rule_rows();
std::vector<std::string_view> update_rule_names();
/// The help of --clip, which lists the norm at which each rule clips by default.
std::string_view update_clip_help();

}  // namespace tern
