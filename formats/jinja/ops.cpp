// Attributes, items, arithmetic.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/jinja/eval.h"
#include "formats/jinja/format.h"
#include "formats/jinja/text.h"

namespace tern::jinja {
namespace {

bool is_index(const Value& v) { return v.is_integral(); }

/// Position for Python's index `i` among `size` items; false: out of range.
bool resolve_index(Int i, size_t size, size_t& at) {
  if (i < 0) i += static_cast<Int>(size);
  if (i < 0 || i >= static_cast<Int>(size)) return false;
  at = static_cast<size_t>(i);
  return true;
}

Value sliced(Evaluator& ev, const Value& of, const SliceObject& s) {
  if (of.is(Kind::text)) {
    const TextObject& t = of.text();
    const Slice part = resolve_slice(s, t.num_chars);
    ev.meter.work(t.text.size());
    if (part.step == 1)
      return ev.text(t.text.slice(byte_offset(t, part.begin), byte_offset(t, part.begin + part.count)), of.safe());
    std::vector<size_t> starts;  // of every character
    for (size_t at = 0; at < t.text.size(); ++at)
      if ((t.text.bytes[at] & 0xc0) != 0x80) starts.push_back(at);
    ev.meter.work(starts.size() * 16);
    starts.push_back(t.text.size());
    MarkedText out;
    for (size_t i = 0; i < part.count; ++i) {
      const auto at = static_cast<size_t>(static_cast<Int>(part.begin) + static_cast<Int>(i) * part.step);
      out.append(t.text, starts[at], starts[at + 1]);
    }
    return ev.text(std::move(out), of.safe());
  }
  if (of.is(Kind::range)) {
    const RangeObject& r = of.range();
    const Slice part = resolve_slice(s, static_cast<size_t>(r.size));
    auto out = std::make_shared<RangeObject>();
    out->start = r.start + static_cast<Int>(part.begin) * r.step;
    out->step = r.step * part.step;
    out->size = static_cast<Int>(part.count);
    return Value(Kind::range, std::move(out));
  }
  const ValueList& items = of.list().items;
  const Slice part = resolve_slice(s, items.size());
  ValueList out;
  out.reserve(part.count);
  for (size_t i = 0; i < part.count; ++i)
    out.push_back(items[static_cast<size_t>(static_cast<Int>(part.begin) + static_cast<Int>(i) * part.step)]);
  return ev.maker.list(std::move(out), of.kind());
}

// obj[key] of Python: false where it raises TypeError or LookupError.
bool subscript(Evaluator& ev, const Value& of, const Value& key, Value& out) {
  defined(of);
  switch (of.kind()) {
    case Kind::dict: {
      if (key.is(Kind::slice) || key.is(Kind::list) || key.is(Kind::dict)) return false;
      const Value* found = dict_find(&ev.meter, of.dict(), key);
      if (found) out = *found;
      return found != nullptr;
    }
    case Kind::text:
    case Kind::list:
    case Kind::tuple:
    case Kind::range: {
      if (key.is(Kind::slice)) {
        out = sliced(ev, of, static_cast<const SliceObject&>(*key.object()));
        return true;
      }
      size_t at = 0;
      if (!is_index(key) || !resolve_index(key.integer(), length(of), at)) return false;
      if (of.is(Kind::text)) {
        ev.meter.work(of.text().ascii() ? 1 : of.bytes().size());
        out = ev.text(of.marked().slice(byte_offset(of.text(), at), byte_offset(of.text(), at + 1)), of.safe());
      } else {
        out = of.is(Kind::range) ? range_item(of.range(), static_cast<Int>(at)) : of.list().items[at];
      }
      return true;
    }
    default:
      return false;
  }
}

// What the sandbox forbids comes out as undefined.
bool unsafe_attribute(Evaluator& ev, const Value& of, std::string_view name, Value& out) {
  out = ev.maker.undefined(
      fmt::format("access to attribute {} of {} object is unsafe.", repr_text(name), repr_text(type_name(of))),
      JinjaFault::security);
  return true;
}

bool loop_attribute(Evaluator& ev, const Value& of, std::string_view name, Value& out) {
  auto& loop = static_cast<LoopObject&>(*of.object());
  const auto number = [&](Int i) {
    out = Value::integer(i);
    return true;
  };
  if (name == "index") return number(loop.index0 + 1);
  if (name == "index0") return number(loop.index0);
  if (name == "length") return number(loop.length(ev.maker));
  if (name == "revindex") return number(loop.length(ev.maker) - loop.index0);
  if (name == "revindex0") return number(loop.length(ev.maker) - loop.index0 - 1);
  if (name == "depth") return number(1);
  if (name == "depth0") return number(0);
  if (name == "first" || name == "last") {
    out = Value::boolean(name == "first" ? loop.index0 == 0 : !loop.peek());
    return true;
  }
  if (name == "previtem") {
    out = loop.index0 == 0 ? ev.maker.undefined("there is no previous item") : loop.before;
    return true;
  }
  if (name == "nextitem") {
    out = loop.peek() ? loop.after : ev.maker.undefined("there is no next item");
    return true;
  }
  if (name == "cycle" || name == "changed") {
    out = ev.maker.method(of, name);
    return true;
  }
  return name.starts_with('_') ? unsafe_attribute(ev, of, name, out) : false;
}

bool macro_attribute(Evaluator& ev, const Value& of, std::string_view name, Value& out) {
  const Function& f = *static_cast<const MacroObject&>(*of.object()).function;
  if (name == "name") {
    out = f.name.empty() ? Value::none() : ev.maker.text(f.name);
  } else if (name == "arguments") {
    ValueList names;
    for (const std::string& p : f.parameters) names.push_back(ev.maker.text(p));
    out = ev.maker.list(std::move(names), Kind::tuple);
  } else if (name == "caller" || name == "catch_kwargs" || name == "catch_varargs") {
    out = Value::boolean((name == "caller"         ? f.caller_slot
                          : name == "catch_kwargs" ? f.kwargs_slot
                                                   : f.varargs_slot) >= 0);
  } else {
    return name.starts_with('_') ? unsafe_attribute(ev, of, name, out) : false;
  }
  return true;
}

// getattr(obj, name) of Python: false where it raises AttributeError.
bool get_attribute(Evaluator& ev, const Value& of, std::string_view name, Value& out) {
  if (of.is(Kind::undefined)) {
    if (name.starts_with("__")) return false;
    use_undefined(of);
  }
  if (of.is(Kind::name_space)) {
    const Value* found = of.name_space().find(name);
    if (found) out = *found;
    if (!found && name.starts_with("__")) return unsafe_attribute(ev, of, name, out);
    return found != nullptr;
  }
  if (name.starts_with("__") && name.ends_with("__"))  // most exist on every object
    return unsafe_attribute(ev, of, name, out);
  if (of.is(Kind::loop)) return loop_attribute(ev, of, name, out);
  if (of.is(Kind::macro)) return macro_attribute(ev, of, name, out);
  if (of.is(Kind::cycler)) {
    auto& c = static_cast<CyclerObject&>(*of.object());
    if (name == "current") {
      out = c.items[c.at];
      return true;
    }
    if (name == "next" || name == "reset") {
      out = ev.maker.method(of, name);
      return true;
    }
  }
  switch (find_attribute(of, name)) {
    case Attribute::method:
    case Attribute::unsupported:
      out = ev.maker.method(of, name);
      return true;
    case Attribute::forbidden:
      return unsafe_attribute(ev, of, name, out);
    case Attribute::none:
      return false;
  }
  return false;
}

}  // namespace

Slice resolve_slice(const SliceObject& slice, size_t size) {
  const auto number = [](const Value& v, Int otherwise) {
    if (v.is(Kind::none)) return otherwise;
    if (!v.is_integral()) type_error("slice indices must be integers or None or have an __index__ method");
    return v.integer();
  };
  const auto n = static_cast<Int>(size);
  Slice out;
  out.step = number(slice.step, 1);
  if (out.step == 0) type_error("slice step cannot be zero");
  const Int low = out.step > 0 ? 0 : -1, high = out.step > 0 ? n : n - 1;
  const auto bound = [&](const Value& v, Int otherwise) {
    Int i = number(v, otherwise);
    if (v.is(Kind::none)) return otherwise;
    if (i < 0) i += n;
    return std::clamp(i, low, high);
  };
  const Int start = bound(slice.start, out.step > 0 ? low : high), stop = bound(slice.stop, out.step > 0 ? high : low);
  const Int span = out.step > 0 ? stop - start : start - stop, step = out.step > 0 ? out.step : -out.step;
  if (span > 0) {
    out.count = static_cast<size_t>((span - 1) / step + 1);
    out.begin = static_cast<size_t>(start);
  }
  if (out.count <= 1) out.step = 1;
  return out;
}

Value Evaluator::attribute(const Value& of, std::string_view name) {
  Value out;
  if (get_attribute(*this, of, name, out)) return out;
  const Value key = maker.text(name);
  if (subscript(*this, of, key, out)) return out;
  return maker.no_attribute(of, key);
}

Value Evaluator::item(const Value& of, const Value& key) {
  Value out;
  if (subscript(*this, of, key, out)) return out;
  if (key.is(Kind::text) && get_attribute(*this, of, key.bytes(), out)) return out;
  return maker.no_attribute(of, key);
}

Value Evaluator::slice(const Value& of, const Value& key) {
  Value out;
  if (subscript(*this, of, key, out)) return out;
  if (of.is(Kind::dict)) type_error("unhashable type: 'slice'");
  type_error(fmt::format("'{}' object is not subscriptable", type_name(of)));
}

// ---- arithmetic

namespace {

const char* symbol(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::sub:
      return "-";
    case Op::mul:
      return "*";
    case Op::div:
      return "/";
    case Op::floordiv:
      return "//";
    case Op::mod:
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void unsupported_operands(Op op, const Value& a, const Value& b) {
  type_error(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b)));
}

[[noreturn]] void too_large() { fail(JinjaFault::limit, "an integer beyond 128 bits"); }

Int floor_div(Int a, Int b) {
  const Int q = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}

Value power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) fail(JinjaFault::runtime, "0.0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Int result = 1;
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) too_large();
  return Value::integer(result);
}

Value integers(Op op, Int a, Int b) {
  Int out = 0;
  switch (op) {
    case Op::add:
      if (__builtin_add_overflow(a, b, &out)) too_large();
      return Value::integer(out);
    case Op::sub:
      if (__builtin_sub_overflow(a, b, &out)) too_large();
      return Value::integer(out);
    case Op::mul:
      if (__builtin_mul_overflow(a, b, &out)) too_large();
      return Value::integer(out);
    case Op::div:
      if (b == 0) fail(JinjaFault::runtime, "division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Op::floordiv:
    case Op::mod:
      if (b == 0) fail(JinjaFault::runtime, "integer division or modulo by zero");
      if (b == -1) {  // the smallest integer has no opposite
        if (op == Op::mod) return Value::integer(0);
        if (__builtin_sub_overflow(Int{0}, a, &out)) too_large();
        return Value::integer(out);
      }
      return Value::integer(op == Op::floordiv ? floor_div(a, b) : a - floor_div(a, b) * b);
    default:
      return power(a, b);
  }
}

Value reals(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return Value::real(a + b);
    case Op::sub:
      return Value::real(a - b);
    case Op::mul:
      return Value::real(a * b);
    case Op::div:
      if (b == 0) fail(JinjaFault::runtime, "float division by zero");
      return Value::real(a / b);
    case Op::floordiv:
    case Op::mod: {
      if (b == 0) fail(JinjaFault::runtime, op == Op::mod ? "float modulo" : "float divmod()");
      double rest = std::fmod(a, b);  // Python's float_divmod
      double quotient = (a - rest) / b;
      if (rest != 0 && (b < 0) != (rest < 0)) {
        rest += b;
        quotient -= 1;
      }
      if (rest == 0) rest = std::copysign(0.0, b);
      if (op == Op::mod) return Value::real(rest);
      double whole = quotient == 0 ? std::copysign(0.0, a / b) : std::floor(quotient);
      if (quotient != 0 && quotient - whole > 0.5) whole += 1;
      return Value::real(whole);
    }
    default:
      if (a == 0 && b < 0) fail(JinjaFault::runtime, "0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b)) fail(JinjaFault::limit, "a complex number");
      return Value::real(std::pow(a, b));
  }
}

Value repeat(Evaluator& ev, const Value& of, const Value& times) {
  const Int n = std::max<Int>(times.integer(), 0);
  const bool is_text = of.is(Kind::text);
  const auto size = static_cast<Int>(is_text ? of.bytes().size() : of.list().items.size());
  const auto most = static_cast<Int>(is_text ? ev.meter.limits().max_output_bytes
                                             : static_cast<size_t>(ev.meter.limits().max_memory_bytes) / sizeof(Value));
  if (size > 0 && n > most / size)
    fail(JinjaFault::limit,
         fmt::format("a repetition of more than {} {}", int_text(most), is_text ? "bytes" : "items"));
  if (is_text) {
    MarkedText out;
    if (size > 0) {
      ev.meter.work(static_cast<size_t>(n * size));
      for (Int i = 0; i < n; ++i) out.append(of.marked());
    }
    return ev.text(std::move(out), of.safe());
  }
  ValueList out;
  if (size > 0)
    for (Int i = 0; i < n; ++i) out.insert(out.end(), of.list().items.begin(), of.list().items.end());
  return ev.maker.list(std::move(out), of.kind());
}

Value add_texts(Evaluator& ev, const Value& a, const Value& b) {
  const bool safe = a.safe() || b.safe();
  MarkedText out = safe && !a.safe() ? escape_html(a.marked()) : a.marked();
  ev.meter.check_text(out.size() + b.bytes().size());
  if (safe && !b.safe()) {
    out.append(escape_html(b.marked()));
  } else {
    out.append(b.marked());
  }
  return ev.text(std::move(out), safe);
}

// A Markup multiplies itself (markupsafe 3): it asks for a whole number before Undefined is asked anything.
void require_index(Op op, const Value& markup, const Value& times) {
  if (op == Op::mul && markup.is(Kind::text) && markup.safe() && !times.is_integral())
    type_error(fmt::format("'{}' object cannot be interpreted as an integer", type_name(times)));
}

}  // namespace

Value binary(Evaluator& ev, Op op, const Value& a, const Value& b) {
  if (op == Op::mod && a.is(Kind::text)) return ev.text(percent_format(ev, a.marked(), b, a.safe()), a.safe());
  require_index(op, a, b);
  defined(a);
  defined(b);
  require_index(op, b, a);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return integers(op, a.integer(), b.integer());
    return reals(op, a.real(), b.real());
  }
  if (op == Op::add) {
    if (a.is(Kind::text) && b.is(Kind::text)) return add_texts(ev, a, b);
    if (a.is(Kind::text) && !b.safe())
      type_error(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
    if ((a.is(Kind::list) || a.is(Kind::tuple)) && a.kind() == b.kind()) {
      ValueList out = a.list().items;
      out.insert(out.end(), b.list().items.begin(), b.list().items.end());
      return ev.maker.list(std::move(out), a.kind());
    }
    if (a.is(Kind::list) || a.is(Kind::tuple))
      type_error(fmt::format("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a)));
  }
  if (op == Op::mul) {
    const auto repeats = [](const Value& v) { return v.is(Kind::text) || v.is(Kind::list) || v.is(Kind::tuple); };
    if (repeats(a) && b.is_integral()) return repeat(ev, a, b);
    if (repeats(b) && a.is_integral()) return repeat(ev, b, a);
    if (repeats(a) || repeats(b))
      type_error(fmt::format("can't multiply sequence by non-int of type '{}'", type_name(repeats(a) ? b : a)));
  }
  unsupported_operands(op, a, b);
}

Value unary(Evaluator&, Op op, const Value& a) {
  defined(a);
  if (a.is(Kind::real)) return Value::real(op == Op::negate ? -a.real() : a.real());
  if (!a.is_integral())
    type_error(fmt::format("bad operand type for unary {}: '{}'", op == Op::negate ? "-" : "+", type_name(a)));
  Int out = a.integer();
  if (op == Op::negate && __builtin_sub_overflow(Int{0}, a.integer(), &out)) too_large();
  return Value::integer(out);
}

}  // namespace tern::jinja
