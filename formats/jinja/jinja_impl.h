#pragma once
// What the files of the template engine share: filters, tests, methods, calls. Never leaves this folder.

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/jinja/ast.h"
#include "formats/jinja/value.h"

namespace tern::jinja {

class Evaluator;

/// Arguments of a call, evaluated.
struct CallArguments {
  ValueList positional;
  std::vector<std::pair<std::string, Value>> keywords;
  std::vector<MarkedText> keyword_marks;  // unused by most
};

/// Binds arguments to the parameters of a filter, test, method or global, as Python would.
class Signature {
 public:
  /// `names`: "value, default_value='', boolean=False" is written "value default_value? boolean?".
  Signature(std::string_view callee, std::string_view names, const CallArguments& arguments);
  const Value& operator[](size_t i) const { return values_[i]; }
  bool given(size_t i) const { return !values_[i].is(Kind::missing); }

 private:
  ValueList values_;
};

using FilterFunction = Value (*)(Evaluator&, const Value& subject, const CallArguments&);
using TestFunction = bool (*)(Evaluator&, const Value& subject, const CallArguments&);
/// A filter, and a test, by name.
struct FilterEntry {
  std::string_view name;
  FilterFunction run;
};
struct TestEntry {
  std::string_view name;
  TestFunction run;
};
/// The filter, and the test, of this name; nullptr: none.
const FilterEntry* find_filter(std::string_view name);
const TestEntry* find_test(std::string_view name);
/// Whether Jinja2 has a filter, or a test, of this name that this subset lacks.
bool is_foreign_filter(std::string_view name);
bool is_foreign_test(std::string_view name);
std::vector<std::string_view> filter_names();
std::vector<std::string_view> test_names();

/// Whether a text, dict, list or tuple has this method. none: it has no such attribute; forbidden: Jinja2's sandbox
/// refuses it; unsupported: Python has it and this subset does not.
enum class Attribute { none, method, forbidden, unsupported };
Attribute find_attribute(const Value& self, std::string_view name);
/// Whether any Python type has a method of this name that the subset lacks (for errors at loading).
bool is_foreign_method(std::string_view name);
Value call_method(Evaluator&, const MethodObject& method, const CallArguments&);
Value call_global(Evaluator&, const Value& function, const CallArguments&);
std::optional<Value> find_global(const Maker&, std::string_view name);

/// The dict that dict() makes of its arguments: a mapping or pairs, then keywords.
Value make_dict(Evaluator&, const CallArguments&, const char* callee);

/// How a macro, and the variable `loop`, print.
std::string macro_name(const Value& macro);
std::string loop_text(const Value& loop);

/// The `count` items begin, begin + step, … that a slice takes.
struct Slice {
  size_t begin = 0, count = 0;
  Int step = 1;
};
/// a:b:c within []; a missing bound is none.
struct SliceObject : Object {
  Value start, stop, step;
};
/// What Python's slice takes of `size` items. Errors: Failure: a bound that is no integer, a step of 0.
Slice resolve_slice(const SliceObject& slice, size_t size);

}  // namespace tern::jinja
