#pragma once
// Runs a bound tree. One Evaluator is one rendering.

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/jinja/jinja_impl.h"

namespace tern::jinja {

/// The variables of one running function: the template, or one call of a macro.
struct Activation : Object {
  std::shared_ptr<Activation> parent;  // where the macro was defined
  ValueList slots;
  std::unique_ptr<Held> held;
  void drop() override {
    for (Value& slot : slots) slot = Value();
  }
};
using Home = std::shared_ptr<Activation>;

/// A macro, with the variables of the function that defines it.
struct MacroObject : Object {
  std::shared_ptr<const Function> function;
  Home home;
};
/// The variable `loop` of a running for.
struct LoopObject : Object {
  Int index0 = -1;
  std::function<bool(Value&)> source;
  // What is looped over, if loop.length is its length. Missing if the items must be counted, because the loop has a test,
  // or walks an iterator or another loop.
  Value iterable;
  bool peeked = false, peeked_end = false, closed = false;
  Value before, current, after, last_changed;
  std::optional<Int> known_length;
  bool next();  // false: exhausted
  bool peek();
  Int length(const Maker& maker);
  void drop() override;
};
/// What cycler() gives.
struct CyclerObject : Object {
  ValueList items;
  size_t at = 0;
};
/// What joiner() gives.
struct JoinerObject : Object {
  Value separator;
  bool used = false;
};

/// One rendering. Errors of its functions: Failure.
class Evaluator {
 public:
  Evaluator(const Parsed& parsed, const std::vector<JinjaVariable>& variables, const JinjaRenderOptions& options);
  MarkedText run();

  Meter meter;
  Maker maker;
  const std::tm now;

  // what filters, tests and methods need
  Value attribute(const Value& of, std::string_view name);  // of.name
  Value item(const Value& of, const Value& key);            // of[key]
  Value slice(const Value& of, const Value& key);           // of[a:b:c]; fails where Python's does
  Value call(const Value& callee, const CallArguments& arguments);
  Value apply_filter(std::string_view name, const Value& subject, const CallArguments& arguments);
  bool apply_test(std::string_view name, const Value& subject, const CallArguments& arguments);
  bool contains(const Value& item, const Value& in);
  MarkedText str(const Value& v) { return to_text(&meter, v); }
  Value text(MarkedText t, bool safe = false) { return maker.text(std::move(t), safe); }

 private:
  enum class Flow { normal, break_, continue_ };
  struct Line;

  // statements
  Flow run(const StmtList& body, const Home& home);
  Flow run(const Stmt& s, const Home& home);
  Flow run_loop(const Stmt& s, const Home& home);
  void run_set_block(const Stmt& s, const Home& home, Flow& flow);
  void run_filter_block(const Stmt& s, const Home& home, Flow& flow);
  void enter(const Frame& frame, const Home& home);
  void assign(const Expr& target, const Value& v, const Home& home);
  void check_namespaces(const Expr& target, const Home& home);
  void output(const Value& v);
  Value& slot(Place place, const Home& home);
  Value make_macro(const std::shared_ptr<const Function>& f, const Home& home);
  MarkedText call_macro(const MacroObject& macro, const CallArguments& arguments);

  // expressions
  Value eval(const Expr& e, const Home& home);
  Value eval_name(const Expr& e, const Home& home);
  Value eval_container(const Expr& e, const Home& home);
  Value eval_compare(const Expr& e, const Home& home);
  Value eval_concat(const Expr& e, const Home& home);
  Value eval_call(const Expr& e, const Home& home);
  Value eval_filter(const Expr& e, const Home& home, const Value* subject);
  Value eval_test(const Expr& e, const Home& home);
  Value eval_slice(const Expr& e, const Home& home);
  Value eval_conditional(const Expr& e, const Home& home);
  bool compare_values(Comparison op, const Value& a, const Value& b);
  CallArguments eval_arguments(const Arguments& arguments, const Home& home);

  const Parsed& parsed_;
  std::map<std::string, Value, std::less<>> variables_;
  MarkedText* out_ = nullptr;
};

/// a OP b, -a, +a as Python has them.
Value binary(Evaluator&, Op op, const Value& a, const Value& b);
Value unary(Evaluator&, Op op, const Value& a);

}  // namespace tern::jinja
