#pragma once
// A function for each verb that computes (adapt combine and adapt extract: verb_adapt_combine.h), and for adapt --stream and generate --prompts.
// It returns the exit code; main.cpp catches what it throws.

namespace tern {

class Options;

int run_demo(const Options&);
int run_train(const Options&);
int run_adapt(const Options&);
int run_adapt_merge(const Options&);
int run_adapt_stream(const Options&);
int run_new(const Options&);
int run_launch(const Options&);
int run_generate(const Options&);
int run_generate_prompts(const Options&);  // run_generate with --prompts
int run_chat(const Options&);
int run_eval(const Options&);
int run_embed(const Options&);
int run_serve(const Options&);
int run_tokenize(const Options&);
int run_inspect(const Options&);
int run_export(const Options&);
int run_quantize(const Options&);
int run_plan(const Options&);
int run_plan_calibrate(const Options&);
int run_plan_table(const Options&);
int run_compare(const Options&);
int run_doctor(const Options&);
int run_bench(const Options&);
int run_bench_serve(const Options&);
int run_profile(const Options&);

}  // namespace tern
