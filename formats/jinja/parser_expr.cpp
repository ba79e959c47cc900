// Expressions, loosest operator first. Source: the grammar of Jinja2 3.1.6.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "formats/jinja/parser.h"

namespace tern::jinja {

struct Parser::Nested {
  explicit Nested(Parser& p) : parser(p) {
    if (++parser.nesting_ > kJinjaMaxNesting)
      throw Failure{JinjaFault::limit, "expressions nested too deep", parser.now().line};
  }
  ~Nested() { --parser.nesting_; }
  Parser& parser;
};

ExprPtr Parser::make(Op op, int line) const {
  auto e = std::make_unique<Expr>();
  e->op = op;
  e->line = line;
  return e;
}

void Parser::settle(Expr& e) const {
  const auto deepen = [&](const ExprPtr& child) {
    if (child) e.depth = std::max(e.depth, child->depth + 1);
  };
  for (const ExprPtr& operand : e.operands) deepen(operand);
  if (e.arguments) {
    for (const ExprPtr& a : e.arguments->positional) deepen(a);
    for (const auto& [name, a] : e.arguments->keywords) deepen(a);
    deepen(e.arguments->star);
    deepen(e.arguments->star_star);
  }
  if (e.depth > kJinjaMaxNesting) throw Failure{JinjaFault::limit, "expressions nested too deep", e.line};
}

ExprPtr Parser::join(Op op, int line, ExprPtr a, ExprPtr b, ExprPtr c) const {
  ExprPtr e = make(op, line);
  e->operands.push_back(std::move(a));
  if (b) e->operands.push_back(std::move(b));
  if (c) e->operands.push_back(std::move(c));
  settle(*e);
  return e;
}

ExprPtr Parser::expression(bool conditional) {
  const Nested nested(*this);
  int line = now().line;
  ExprPtr e = logical_or();
  while (conditional && skip_name("if")) {
    ExprPtr condition = logical_or(), otherwise;
    if (skip_name("else")) otherwise = expression();
    e = join(Op::conditional, line, std::move(condition), std::move(e), std::move(otherwise));
    line = now().line;
  }
  return e;
}

ExprPtr Parser::logical_or() {
  ExprPtr left = logical_and();
  for (int line = now().line; skip_name("or"); line = now().line)
    left = join(Op::logical_or, line, std::move(left), logical_and());
  return left;
}

ExprPtr Parser::logical_and() {
  ExprPtr left = logical_not();
  for (int line = now().line; skip_name("and"); line = now().line)
    left = join(Op::logical_and, line, std::move(left), logical_not());
  return left;
}

ExprPtr Parser::logical_not() {
  const Nested nested(*this);
  const int line = now().line;
  if (skip_name("not")) return join(Op::logical_not, line, logical_not());
  return comparison();
}

ExprPtr Parser::comparison() {
  static constexpr std::pair<std::string_view, Comparison> kOps[] = {{"==", Comparison::eq}, {"!=", Comparison::ne},
                                                                     {"<", Comparison::lt},  {"<=", Comparison::le},
                                                                     {">", Comparison::gt},  {">=", Comparison::ge}};
  const int line = now().line;
  ExprPtr first = sum(), chain;
  while (true) {
    Comparison op;
    const auto* found = std::find_if(std::begin(kOps), std::end(kOps), [&](auto& o) { return is_op(o.first); });
    if (found != std::end(kOps)) {
      op = found->second;
      take();
    } else if (skip_name("in")) {
      op = Comparison::in;
    } else if (is_name("not") && ahead().is(Token::name, "in")) {
      take();
      take();
      op = Comparison::not_in;
    } else {
      break;
    }
    if (!chain) {
      chain = make(Op::compare, line);
      chain->operands.push_back(std::move(first));
    }
    chain->comparisons.push_back(op);
    chain->operands.push_back(sum());
  }
  if (!chain) return first;
  settle(*chain);
  return chain;
}

ExprPtr Parser::sum() {
  ExprPtr left = concat();
  while (is_op("+") || is_op("-")) {
    const int line = now().line;
    const Op op = take().text == "+" ? Op::add : Op::sub;
    left = join(op, line, std::move(left), concat());
  }
  return left;
}

ExprPtr Parser::concat() {
  const int line = now().line;
  ExprPtr first = product();
  if (!is_op("~")) return first;
  ExprPtr all = make(Op::concat, line);
  all->operands.push_back(std::move(first));
  while (skip_op("~")) all->operands.push_back(product());
  settle(*all);
  return all;
}

ExprPtr Parser::product() {
  ExprPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const int line = now().line;
    const std::string sign = take().text;
    const Op op = sign == "*" ? Op::mul : sign == "/" ? Op::div : sign == "//" ? Op::floordiv : Op::mod;
    left = join(op, line, std::move(left), power());
  }
  return left;
}

ExprPtr Parser::power() {
  ExprPtr left = unary();
  for (int line = now().line; skip_op("**"); line = now().line) left = join(Op::power, line, std::move(left), unary());
  return left;
}

ExprPtr Parser::unary(bool with_filter) {
  const Nested nested(*this);
  const int line = now().line;
  ExprPtr e;
  if (skip_op("-")) {
    e = join(Op::negate, line, unary(false));
  } else if (skip_op("+")) {
    e = join(Op::plus, line, unary(false));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filter ? filters_and_tests(std::move(e)) : std::move(e);
}

ExprPtr Parser::primary(bool with_namespace) {
  switch (now().token) {
    case Token::name:
      return name_or_constant(with_namespace);
    case Token::text:
      return text_constant();
    case Token::integer:
      return integer_constant();
    case Token::real:
      return real_constant();
    default:
      break;
  }
  if (!skip_op("(")) return list_or_dict();
  ExprPtr e = tuple(false, true, "", true, false);
  expect_op(")");
  return e;
}

ExprPtr Parser::name_or_constant(bool with_namespace) {
  ExprPtr e = make(Op::constant, now().line);
  const std::string name = take().text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    e->value = Value::boolean(name[0] == 't' || name[0] == 'T');
  } else if (name == "none" || name == "None") {
    e->value = Value::none();
  } else if (with_namespace && skip_op(".")) {
    e->op = Op::namespace_target;
    e->owner = name;
    e->name = expect_any_name();
  } else {
    e->op = Op::name;
    e->name = name;
  }
  return e;
}

ExprPtr Parser::text_constant() {  // texts beside each other are one
  ExprPtr e = make(Op::constant, now().line);
  std::string text;
  while (now().token == Token::text) text += take().text;
  e->value = Maker{}.text(text);
  return e;
}

ExprPtr Parser::integer_constant() {
  ExprPtr e = make(Op::constant, now().line);
  Int value = 0;
  const int base = now().base;
  if (now().text.size() > (base == 2 ? 126u : 30u)) unsupported("an integer of this size");
  for (const char c : take().text) {
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    value = value * base + digit;
  }
  e->value = Value::integer(value);
  return e;
}

ExprPtr Parser::real_constant() {
  ExprPtr e = make(Op::constant, now().line);
  const std::string text = take().text;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) value = std::strtod(text.c_str(), nullptr);
  e->value = Value::real(value);
  return e;
}

ExprPtr Parser::list_or_dict() {
  const int line = now().line;
  const bool is_list = is_op("[");
  if (!is_list && !is_op("{")) syntax(fmt::format("unexpected '{}'", describe()));
  const Nested nested(*this);
  take();
  const std::string_view close = is_list ? "]" : "}";
  ExprPtr e = make(is_list ? Op::list : Op::dict, line);
  while (!is_op(close)) {
    if (!e->operands.empty()) expect_op(",");
    if (is_op(close)) break;
    e->operands.push_back(expression());
    if (is_list) continue;
    expect_op(":");
    e->operands.push_back(expression());
  }
  expect_op(close);
  settle(*e);
  return e;
}

ExprPtr Parser::tuple(bool simplified, bool conditional, std::string_view end_name, bool parentheses,
                      bool with_namespace) {
  const Nested nested(*this);
  const int line = now().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  const auto at_end = [&] {
    return now().token == Token::variable_end || now().token == Token::block_end || is_op(")") ||
           (!end_name.empty() && is_name(end_name));
  };
  while (true) {
    if (!items.empty()) expect_op(",");
    if (at_end()) break;
    items.push_back(simplified ? primary(with_namespace) : expression(conditional));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!parentheses) syntax(fmt::format("Expected an expression, got '{}'", describe()));
  }
  ExprPtr e = make(Op::tuple, line);
  e->operands = std::move(items);
  settle(*e);
  return e;
}

void Parser::mark_store(Expr& e) {
  e.store = true;
  if (e.op == Op::tuple) {
    for (const ExprPtr& item : e.operands) mark_store(*item);
  } else if (e.op != Op::name && e.op != Op::namespace_target) {
    syntax("can't assign to an expression");
  }
}

ExprPtr Parser::target(std::string_view end_name, bool with_namespace) {
  ExprPtr e = tuple(true, true, end_name, false, with_namespace);
  mark_store(*e);
  return e;
}

ExprPtr Parser::postfix(ExprPtr e) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      e = subscript(std::move(e));
    } else if (is_op("(")) {
      e = call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr Parser::filters_and_tests(ExprPtr e) {
  while (true) {
    if (skip_op("|")) {
      e = filter(std::move(e));
    } else if (skip_name("is")) {
      e = test(std::move(e));
    } else if (is_op("(")) {
      e = call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr Parser::subscript(ExprPtr e) {
  const int line = now().line;
  if (take().text == ".") {
    if (now().token == Token::name) {
      ExprPtr a = join(Op::attribute, line, std::move(e));
      a->name = take().text;
      return a;
    }
    if (now().token != Token::integer) syntax("expected name or number");
    return join(Op::item, line, std::move(e), primary());
  }
  const Nested nested(*this);
  std::vector<ExprPtr> items;
  while (!is_op("]")) {
    if (!items.empty()) expect_op(",");
    items.push_back(subscribed());
  }
  expect_op("]");
  if (items.size() == 1) return join(Op::item, line, std::move(e), std::move(items[0]));
  ExprPtr all = make(Op::tuple, line);
  all->operands = std::move(items);
  settle(*all);
  return join(Op::item, line, std::move(e), std::move(all));
}

ExprPtr Parser::subscribed() {
  const int line = now().line;
  ExprPtr slice = make(Op::slice, line);
  slice->operands.resize(3);
  if (!is_op(":")) {
    ExprPtr first = expression();
    if (!is_op(":")) return first;
    slice->operands[0] = std::move(first);
  }
  for (size_t i = 1; i <= 2 && skip_op(":"); ++i)
    if (!is_op(":") && !is_op("]") && !is_op(",")) slice->operands[i] = expression();
  settle(*slice);
  return slice;
}

std::unique_ptr<Arguments> Parser::arguments() {
  const Nested nested(*this);
  auto all = std::make_unique<Arguments>();
  expect_op("(");
  bool comma = false;
  const auto ensure = [&](bool good) {
    if (!good) syntax("invalid syntax for function call expression");
  };
  while (!is_op(")")) {
    if (comma) {
      expect_op(",");
      if (is_op(")")) break;
    }
    comma = true;
    if (skip_op("*")) {
      ensure(!all->star && !all->star_star);
      all->star = expression();
    } else if (skip_op("**")) {
      ensure(!all->star_star);
      all->star_star = expression();
    } else if (now().token == Token::name && ahead().is(Token::op, "=")) {
      ensure(!all->star_star);
      std::string name = take().text;
      take();
      for (const auto& [other, value] : all->keywords)
        if (other == name) syntax(fmt::format("keyword argument repeated: {}", name));
      all->keywords.emplace_back(std::move(name), expression());
    } else {
      ensure(!all->star && !all->star_star && all->keywords.empty());
      all->positional.push_back(expression());
    }
  }
  expect_op(")");
  return all;
}

ExprPtr Parser::call(ExprPtr e) {
  ExprPtr c = make(Op::call, now().line);
  c->operands.push_back(std::move(e));
  c->arguments = arguments();
  settle(*c);
  return c;
}

ExprPtr Parser::filter(ExprPtr e) {
  ExprPtr f = make(Op::filter, now().line);
  f->name = expect_any_name();
  while (skip_op(".")) f->name += "." + expect_any_name();
  f->operands.push_back(std::move(e));
  f->arguments = is_op("(") ? arguments() : std::make_unique<Arguments>();
  settle(*f);
  return f;
}

ExprPtr Parser::test(ExprPtr e) {
  const int line = now().line;
  const bool negated = skip_name("not");
  ExprPtr t = make(Op::test, line);
  t->name = expect_any_name();
  while (skip_op(".")) t->name += "." + expect_any_name();
  t->operands.push_back(std::move(e));
  t->arguments = std::make_unique<Arguments>();
  const bool starts_argument = now().token == Token::text || now().token == Token::integer ||
                               now().token == Token::real || is_op("[") || is_op("{") ||
                               (now().token == Token::name && !is_name("else") && !is_name("or") && !is_name("and"));
  if (is_op("(")) {
    t->arguments = arguments();
  } else if (starts_argument) {
    if (is_name("is")) syntax("You cannot chain multiple tests with is");
    t->arguments->positional.push_back(postfix(primary()));
  }
  settle(*t);
  return negated ? join(Op::logical_not, line, std::move(t)) : std::move(t);
}

}  // namespace tern::jinja
