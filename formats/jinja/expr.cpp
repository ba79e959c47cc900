// Expressions.
#include <fmt/format.h>

#include "formats/jinja/eval.h"
#include "formats/jinja/text.h"

namespace tern::jinja {

Value Evaluator::eval(const Expr& e, const Home& home) {
  const Level level(meter);
  meter.work(32);
  try {
    switch (e.op) {
      case Op::constant:
        return e.value;
      case Op::name:
        return eval_name(e, home);
      case Op::list:
      case Op::tuple:
      case Op::dict:
        return eval_container(e, home);
      case Op::attribute:
        return attribute(eval(*e.operands[0], home), e.name);
      case Op::item: {
        const Value of = eval(*e.operands[0], home), key = eval(*e.operands[1], home);
        return key.is(Kind::slice) ? slice(of, key) : item(of, key);
      }
      case Op::slice:
        return eval_slice(e, home);
      case Op::call:
        return eval_call(e, home);
      case Op::filter:
        return eval_filter(e, home, nullptr);
      case Op::test:
        return eval_test(e, home);
      case Op::conditional:
        return eval_conditional(e, home);
      case Op::negate:
      case Op::plus:
        return unary(*this, e.op, eval(*e.operands[0], home));
      case Op::logical_not:
        return Value::boolean(!truth(eval(*e.operands[0], home)));
      case Op::logical_and: {
        const Value a = eval(*e.operands[0], home);
        return truth(a) ? eval(*e.operands[1], home) : a;
      }
      case Op::logical_or: {
        const Value a = eval(*e.operands[0], home);
        return truth(a) ? a : eval(*e.operands[1], home);
      }
      case Op::compare:
        return eval_compare(e, home);
      case Op::concat:
        return eval_concat(e, home);
      default: {
        const Value a = eval(*e.operands[0], home);
        return binary(*this, e.op, a, eval(*e.operands[1], home));
      }
    }
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = e.line;
    throw;
  }
}

Value Evaluator::eval_name(const Expr& e, const Home& home) {
  const Value& v = slot(e.place, home);
  return v.is(Kind::missing) ? maker.undefined_name(e.name) : v;
}

Value Evaluator::eval_container(const Expr& e, const Home& home) {
  if (e.op == Op::dict) {
    DictBuilder dict(&meter);
    for (size_t i = 0; i + 1 < e.operands.size(); i += 2) {
      const Value key = eval(*e.operands[i], home);
      dict.set(key, eval(*e.operands[i + 1], home));
    }
    return dict.finish();
  }
  ValueList items;
  items.reserve(e.operands.size());
  for (const ExprPtr& operand : e.operands) items.push_back(eval(*operand, home));
  return maker.list(std::move(items), e.op == Op::list ? Kind::list : Kind::tuple);
}

Value Evaluator::eval_slice(const Expr& e, const Home& home) {
  auto slice = std::make_shared<SliceObject>();
  const auto part = [&](size_t i) { return e.operands[i] ? eval(*e.operands[i], home) : Value::none(); };
  slice->start = part(0);
  slice->stop = part(1);
  slice->step = part(2);
  return Value(Kind::slice, std::move(slice));
}

Value Evaluator::eval_conditional(const Expr& e, const Home& home) {
  if (truth(eval(*e.operands[0], home))) return eval(*e.operands[1], home);
  if (e.operands.size() > 2) return eval(*e.operands[2], home);
  return maker.undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.", e.line));
}

bool Evaluator::compare_values(Comparison op, const Value& a, const Value& b) {
  switch (op) {
    case Comparison::eq:
      return equal(&meter, a, b);
    case Comparison::ne:
      return !equal(&meter, a, b);
    case Comparison::lt:
      return compare(&meter, a, b, "<") == -1;
    case Comparison::gt:
      return compare(&meter, a, b, ">") == 1;
    case Comparison::le: {
      const int order = compare(&meter, a, b, "<=");
      return order == -1 || order == 0;
    }
    case Comparison::ge: {
      const int order = compare(&meter, a, b, ">=");
      return order == 1 || order == 0;
    }
    case Comparison::in:
      return contains(a, b);
    case Comparison::not_in:
      return !contains(a, b);
  }
  return false;
}

Value Evaluator::eval_compare(const Expr& e, const Home& home) {
  Value left = eval(*e.operands[0], home);
  for (size_t i = 0; i < e.comparisons.size(); ++i) {
    const Value right = eval(*e.operands[i + 1], home);
    if (!compare_values(e.comparisons[i], left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Evaluator::eval_concat(const Expr& e, const Home& home) {
  ValueList parts;
  for (const ExprPtr& operand : e.operands) parts.push_back(eval(*operand, home));
  MarkedText all;
  for (const Value& part : parts) {
    if (part.is(Kind::text)) {
      all.append(part.marked());
    } else {
      all.append(str(part));
    }
    meter.check_text(all.size());
  }
  return text(std::move(all));
}

CallArguments Evaluator::eval_arguments(const Arguments& arguments, const Home& home) {
  CallArguments out;
  for (const ExprPtr& a : arguments.positional) out.positional.push_back(eval(*a, home));
  for (const auto& [name, a] : arguments.keywords) out.keywords.emplace_back(name, eval(*a, home));
  if (arguments.star)
    for (Value& v : to_list(maker, eval(*arguments.star, home))) out.positional.push_back(std::move(v));
  if (arguments.star_star) {
    const Value more = eval(*arguments.star_star, home);
    if (!more.is(Kind::dict)) type_error(fmt::format("argument after ** must be a mapping, not {}", type_name(more)));
    for (const auto& [key, value] : more.dict().items) {
      if (!key.is(Kind::text)) type_error("keywords must be strings");
      for (const auto& [other, ignored] : out.keywords)
        if (other == key.bytes())
          type_error(fmt::format("got multiple values for keyword argument {}", repr_text(key.bytes())));
      out.keywords.emplace_back(key.bytes(), value);
    }
  }
  return out;
}

Value Evaluator::eval_call(const Expr& e, const Home& home) {
  const Value callee = eval(*e.operands[0], home);
  return call(callee, eval_arguments(*e.arguments, home));
}

Value Evaluator::eval_filter(const Expr& e, const Home& home, const Value* subject) {
  const Value inner =
      e.operands[0] ? (subject ? eval_filter(*e.operands[0], home, subject) : eval(*e.operands[0], home)) : *subject;
  if (!e.filter) fail(JinjaFault::runtime, fmt::format("No filter named {} found.", repr_text(e.name)));
  meter.step();
  return e.filter->run(*this, inner, eval_arguments(*e.arguments, home));
}

Value Evaluator::eval_test(const Expr& e, const Home& home) {
  const Value subject = eval(*e.operands[0], home);
  if (!e.test) fail(JinjaFault::runtime, fmt::format("No test named {} found.", repr_text(e.name)));
  meter.step();
  return Value::boolean(e.test->run(*this, subject, eval_arguments(*e.arguments, home)));
}

Value Evaluator::apply_filter(std::string_view name, const Value& subject, const CallArguments& arguments) {
  const FilterEntry* filter = find_filter(name);
  if (!filter) fail(JinjaFault::runtime, fmt::format("No filter named {}.", repr_text(name)));
  meter.step();
  return filter->run(*this, subject, arguments);
}

bool Evaluator::apply_test(std::string_view name, const Value& subject, const CallArguments& arguments) {
  const TestEntry* test = find_test(name);
  if (!test) fail(JinjaFault::runtime, fmt::format("No test named {}.", repr_text(name)));
  meter.step();
  return test->run(*this, subject, arguments);
}

bool Evaluator::contains(const Value& wanted, const Value& in) {
  switch (in.kind()) {
    case Kind::text:
      if (!wanted.is(Kind::text)) {
        type_error(fmt::format("'in <string>' requires string as left operand, not {}", type_name(wanted)));
      }
      meter.work(4 * (in.bytes().size() + wanted.bytes().size()));
      return find_text(in.bytes(), wanted.bytes()) != std::string_view::npos;
    case Kind::dict:
      return dict_find(&meter, in.dict(), wanted) != nullptr;
    case Kind::range: {
      const RangeObject& r = in.range();
      if (wanted.is_integral()) {
        const Int offset = wanted.integer() - r.start;
        return r.size > 0 && offset % r.step == 0 && offset / r.step >= 0 && offset / r.step < r.size;
      }
      break;
    }
    default:
      if (!iterable(in)) type_error(fmt::format("argument of type '{}' is not iterable", type_name(in)));
  }
  const auto next = walk(maker, in);
  for (Value v; next(v);)
    if (identical(v, wanted) || equal(&meter, v, wanted)) return true;
  return false;
}

Value Evaluator::call(const Value& callee, const CallArguments& arguments) {
  meter.step();
  switch (callee.kind()) {
    case Kind::macro:
      return text(call_macro(static_cast<const MacroObject&>(*callee.object()), arguments));
    case Kind::method:
      return call_method(*this, callee.method(), arguments);
    case Kind::function:
    case Kind::joiner:
      return call_global(*this, callee, arguments);
    case Kind::undefined:
      use_undefined(callee);
    default:
      type_error(fmt::format("'{}' object is not callable", type_name(callee)));
  }
}

}  // namespace tern::jinja
