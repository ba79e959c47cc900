// Tests: what stands behind `is`.
// Source  Jinja2 3.1.6's documentation of built-in tests, judged by its output.
#include <fmt/format.h>

#include <algorithm>

#include "formats/jinja/eval.h"
#include "formats/jinja/text.h"

namespace tern::jinja {
namespace {

using Ev = Evaluator;
using Args = CallArguments;

template <Kind kind>
bool is_kind(Ev&, const Value& v, const Args& a) {
  const Signature s("test", "", a);
  return v.is(kind);
}
bool is_boolean(Ev&, const Value& v, const Args&) { return v.is(Kind::boolean); }
bool is_callable(Ev&, const Value& v, const Args&) {
  return v.is(Kind::macro) || v.is(Kind::method) || v.is(Kind::function) || v.is(Kind::joiner) ||
         v.is(Kind::undefined) || v.is(Kind::loop);
}
bool is_defined(Ev&, const Value& v, const Args& a) {
  const Signature s("test_defined", "", a);
  return !v.is(Kind::undefined);
}
Int remainder_of(Ev& ev, const Value& v, const Value& by) {
  const Value rest = binary(ev, Op::mod, v, by);
  return rest.is(Kind::real)  ? (rest.real() == 0   ? 0
                                 : rest.real() == 1 ? 1
                                                    : 2)
         : rest.is_integral() ? rest.integer()
                              : 2;
}
bool is_divisible(Ev& ev, const Value& v, const Args& a) {
  const Signature s("test_divisibleby", "num", a);
  return remainder_of(ev, v, s[0]) == 0;
}
bool is_even(Ev& ev, const Value& v, const Args&) { return remainder_of(ev, v, Value::integer(2)) == 0; }
bool is_odd(Ev& ev, const Value& v, const Args&) { return remainder_of(ev, v, Value::integer(2)) == 1; }
bool is_escaped(Ev&, const Value& v, const Args&) { return v.safe(); }
bool is_false(Ev&, const Value& v, const Args&) { return v.is(Kind::boolean) && !v.flag(); }
bool is_true(Ev&, const Value& v, const Args&) { return v.is(Kind::boolean) && v.flag(); }
bool is_filter(Ev& ev, const Value& v, const Args&) {
  const std::string name = ev.str(v).bytes;
  return find_filter(name) || is_foreign_filter(name);
}
bool is_test(Ev& ev, const Value& v, const Args&) { return find_test(ev.str(v).bytes) != nullptr; }
bool is_in(Ev& ev, const Value& v, const Args& a) {
  const Signature s("test_in", "seq", a);
  return ev.contains(v, s[0]);
}
bool is_iterable(Ev&, const Value& v, const Args&) { return iterable(v); }
bool is_lower(Ev& ev, const Value& v, const Args&) { return text_is("islower", ev.str(v).bytes); }
bool is_upper(Ev& ev, const Value& v, const Args&) { return text_is("isupper", ev.str(v).bytes); }
bool is_number(Ev&, const Value& v, const Args&) { return v.is_number(); }
bool is_sameas(Ev&, const Value& v, const Args& a) {
  const Signature s("test_sameas", "other", a);
  return identical(v, s[0]);
}
bool is_sequence(Ev&, const Value& v, const Args&) {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::text:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
      return true;
    default:
      return false;
  }
}
bool is_undefined(Ev&, const Value& v, const Args&) { return v.is(Kind::undefined); }

template <bool wanted>
bool is_equal(Ev& ev, const Value& v, const Args& a) {
  const Signature s("eq", "other", a);
  return equal(&ev.meter, v, s[0]) == wanted;
}
// orders: bits of those compare() results that pass
template <int less, int same, int more>
bool is_ordered(Ev& ev, const Value& v, const Args& a) {
  const Signature s("compare", "other", a);
  const char* op = less ? (same ? "<=" : "<") : (same ? ">=" : ">");
  const int order = compare(&ev.meter, v, s[0], op);
  return (order == -1 && less) || (order == 0 && same) || (order == 1 && more);
}

constexpr TestEntry kTests[] = {
    {"!=", is_equal<false>},
    {"<", is_ordered<1, 0, 0>},
    {"<=", is_ordered<1, 1, 0>},
    {"==", is_equal<true>},
    {">", is_ordered<0, 0, 1>},
    {">=", is_ordered<0, 1, 1>},
    {"boolean", is_boolean},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", is_equal<true>},
    {"equalto", is_equal<true>},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_false},
    {"filter", is_filter},
    {"float", is_kind<Kind::real>},
    {"ge", is_ordered<0, 1, 1>},
    {"greaterthan", is_ordered<0, 0, 1>},
    {"gt", is_ordered<0, 0, 1>},
    {"in", is_in},
    {"integer", is_kind<Kind::integer>},
    {"iterable", is_iterable},
    {"le", is_ordered<1, 1, 0>},
    {"lessthan", is_ordered<1, 0, 0>},
    {"lower", is_lower},
    {"lt", is_ordered<1, 0, 0>},
    {"mapping", is_kind<Kind::dict>},
    {"ne", is_equal<false>},
    {"none", is_kind<Kind::none>},
    {"number", is_number},
    {"odd", is_odd},
    {"sameas", is_sameas},
    {"sequence", is_sequence},
    {"string", is_kind<Kind::text>},
    {"test", is_test},
    {"true", is_true},
    {"undefined", is_undefined},
    {"upper", is_upper},
};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests), [&](auto& t) { return t.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}
bool is_foreign_test(std::string_view) { return false; }
std::vector<std::string_view> test_names() {
  std::vector<std::string_view> names;
  for (const TestEntry& t : kTests) names.push_back(t.name);
  return names;
}

}  // namespace tern::jinja
