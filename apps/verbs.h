#pragma once
// One function per verb, each in its own file. A verb returns the exit code; what goes wrong it throws (main.cpp
// catches). Weak: a verb that is not built yet is null, and the command says so.

namespace tern {

class Options;

[[gnu::weak]] int run_demo(const Options&);
[[gnu::weak]] int run_train(const Options&);
[[gnu::weak]] int run_generate(const Options&);
[[gnu::weak]] int run_eval(const Options&);
[[gnu::weak]] int run_tokenize(const Options&);
[[gnu::weak]] int run_inspect(const Options&);
[[gnu::weak]] int run_compare(const Options&);
int run_doctor(const Options&);

}  // namespace tern
