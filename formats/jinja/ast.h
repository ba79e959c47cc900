#pragma once
// A template as a tree, names already bound to places: what the parser makes, the binder completes, the evaluator
// walks.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/jinja/value.h"

namespace tern::jinja {

struct FilterEntry;  // formats/jinja/jinja_impl.h
struct TestEntry;

/// Where a variable lies: in slot `index` of the function that is `hops` functions outwards.
struct Place {
  uint32_t hops = 0, index = 0;
};

/// Kinds of expressions.
enum class Op : uint8_t {
  constant,
  name,
  list,
  tuple,
  dict,
  attribute,
  item,
  slice,
  call,
  filter,
  test,
  conditional,
  namespace_target,
  negate,
  plus,
  logical_not,
  logical_and,
  logical_or,
  compare,
  add,
  sub,
  mul,
  div,
  floordiv,
  mod,
  power,
  concat,
};
/// The operators of Op::compare.
enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// Arguments of a call, as expressions.
struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr star, star_star;
};

/// An expression; which members matter depends on `op`.
struct Expr {
  Op op;
  int line;
  int depth = 1;                  // of the tree below
  bool store = false;             // a name or tuple that is assigned to
  Value value;                    // constant
  std::string name;               // name, attribute, filter, test, namespace_target's attribute
  std::string owner;              // namespace_target: the variable
  Place place;                    // name, namespace_target
  std::vector<ExprPtr> operands;  // in order of evaluation; of a dict key, value, key, value; null where absent
  std::vector<Comparison> comparisons;
  std::unique_ptr<Arguments> arguments;  // call, filter, test
  const FilterEntry* filter = nullptr;   // null: unknown to Jinja, an error when reached
  const TestEntry* test = nullptr;
};

/// What happens to one variable when a frame is entered.
struct Load {
  enum class Action : uint8_t { parameter, resolve, alias, undefined } action;
  uint32_t slot;
  Place from;        // alias
  std::string name;  // resolve: from the variables given
};
using Frame = std::vector<Load>;

struct Stmt;
using StmtList = std::vector<std::unique_ptr<Stmt>>;

struct Branch {  // of an if; no test: else
  ExprPtr test;
  StmtList body;
};

/// A macro, or the body that a call block hands over.
struct Function {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<uint32_t> parameter_slots;
  std::vector<ExprPtr> defaults;                              // of the last parameters
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;  // -1: the body does not name it
  bool explicit_caller = false;
  StmtList body;
  Frame frame;
  uint32_t num_slots = 0;
};

/// Kinds of statements.
enum class StmtKind : uint8_t {
  output,
  set,
  set_block,
  branch,
  loop,
  macro,
  call_block,
  filter_block,
  with,
  generation,
  break_,
  continue_,
};

/// A statement; which members matter depends on `kind`.
struct Stmt {
  StmtKind kind;
  int line;
  std::vector<ExprPtr> parts;    // output; with: the values; set_block: its filter, if any
  ExprPtr target, expr, test;    // set, loop (expr is walked), call_block (expr), filter_block (expr)
  std::vector<ExprPtr> targets;  // with
  std::vector<Branch> branches;
  StmtList body, otherwise;
  std::shared_ptr<Function> function;  // macro, call_block, generation
  Place place;                         // macro: where its name is stored
  Frame frame, else_frame, test_frame;
  ExprPtr test_target;    // loop: the target once more, bound for the test
  bool has_loop = false;  // loop: its body names `loop`
  uint32_t loop_slot = 0;
};

/// A template as a tree.
struct Parsed {
  StmtList body;
  Frame frame;
  uint32_t num_slots = 0;
  bool has_generation = false;
  std::vector<std::string> names;  // every variable the source names, sorted
  std::vector<std::string> notes;
};

/// Tokens to tree. Errors: Failure syntax, unsupported, limit, with the line.
Parsed parse(std::string_view source);
/// Gives every name its place as Jinja2's compiler would, and every filter and test its function.
void bind(Parsed& parsed);

}  // namespace tern::jinja
