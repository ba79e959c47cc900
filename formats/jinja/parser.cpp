// Statements. Source: the grammar of Jinja2 3.1.6.
#include "formats/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tern::jinja {

const TokenAt& Parser::take() {
  const TokenAt& t = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return t;
}
bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  take();
  return true;
}
bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

std::string Parser::describe() const {
  switch (now().token) {
    case Token::data:
      return "template data / text";
    case Token::variable_begin:
      return "begin of print statement";
    case Token::variable_end:
      return "end of print statement";
    case Token::block_begin:
      return "begin of statement block";
    case Token::block_end:
      return "end of statement block";
    case Token::end:
      return "end of template";
    default:
      return now().text.substr(0, 60);
  }
}

void Parser::syntax(std::string reason) const { throw Failure{JinjaFault::syntax, std::move(reason), now().line}; }
void Parser::unsupported(std::string reason) const {
  throw Failure{JinjaFault::unsupported, std::move(reason), now().line};
}
void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) syntax(fmt::format("expected token '{}', got '{}'", op, describe()));
}
void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) syntax(fmt::format("expected token '{}', got '{}'", name, describe()));
}
std::string Parser::expect_any_name() {
  if (now().token != Token::name) syntax(fmt::format("expected token 'name', got '{}'", describe()));
  return take().text;
}
void Parser::expect(Token token) {
  if (now().token == token) {
    take();
    return;
  }
  const char* name = token == Token::block_end ? "end of statement block" : "end of print statement";
  syntax(fmt::format("expected token '{}', got '{}'", name, describe()));
}

StmtList Parser::parse_template() { return statements({}); }

StmtList Parser::statements(std::initializer_list<std::string_view> ends) {
  if (++nesting_ > kJinjaMaxNesting) throw Failure{JinjaFault::limit, "blocks nested too deep", now().line};
  StmtList out;
  const auto output = [&]() -> Stmt& {  // text and {{ }} side by side are one statement
    if (out.empty() || out.back()->kind != StmtKind::output) {
      out.push_back(std::make_unique<Stmt>());
      out.back()->kind = StmtKind::output;
      out.back()->line = now().line;
    }
    return *out.back();
  };
  while (true) {
    switch (now().token) {
      case Token::data: {
        ExprPtr text = make(Op::constant, now().line);
        Stmt& s = output();
        text->value = Maker{}.text(take().text);
        s.parts.push_back(std::move(text));
        break;
      }
      case Token::variable_begin: {
        Stmt& s = output();
        take();
        s.parts.push_back(tuple(false, true, "", false, false));
        expect(Token::variable_end);
        break;
      }
      case Token::block_begin:
        take();
        if (std::find(ends.begin(), ends.end(), now().text) != ends.end() && now().token == Token::name) {
          --nesting_;
          return out;
        }
        statement(out);
        expect(Token::block_end);
        break;
      case Token::end:
        if (ends.size() > 0)
          syntax(fmt::format("Unexpected end of template. Jinja was looking for the following tags: '{}'.",
                             fmt::join(ends, "' or '")));
        --nesting_;
        return out;
      default:
        syntax(fmt::format("unexpected '{}'", describe()));
    }
  }
}

StmtList Parser::block(std::initializer_list<std::string_view> ends) {
  skip_op(":");
  expect(Token::block_end);
  return statements(ends);
}

void Parser::statement(StmtList& out) {
  if (now().token != Token::name) syntax("tag name expected");
  static const std::vector<std::string_view> kKnown = {"if",   "for", "set",   "macro", "call",     "filter",
                                                       "with", "raw", "print", "break", "continue", "generation"};
  static const std::vector<std::string_view> kOutside = {"block", "extends", "include", "import", "from", "autoescape"};
  auto s = std::make_unique<Stmt>();
  s->line = now().line;
  const std::string tag = now().text;
  if (std::find(kOutside.begin(), kOutside.end(), tag) != kOutside.end())
    unsupported(fmt::format("the tag '{}': chat templates stand alone", tag));
  if (std::find(kKnown.begin(), kKnown.end(), tag) == kKnown.end())
    syntax(fmt::format("Encountered unknown tag '{}'{}.", tag.substr(0, 60), did_you_mean(tag, kKnown)));
  take();
  if (tag == "if") {
    branch(*s);
  } else if (tag == "for") {
    loop(*s);
  } else if (tag == "set") {
    set(*s);
  } else if (tag == "macro") {
    macro(*s);
  } else if (tag == "call") {
    call_block(*s);
  } else if (tag == "with") {
    with(*s);
  } else if (tag == "filter") {
    s->kind = StmtKind::filter_block;
    s->expr = filter(nullptr);
    while (skip_op("|")) s->expr = filter(std::move(s->expr));
    s->body = block({"endfilter"});
    take();
  } else if (tag == "generation") {
    s->kind = StmtKind::generation;
    s->function = std::make_shared<Function>();
    const int outer = std::exchange(loops_, 0);
    s->function->body = block({"endgeneration"});
    loops_ = outer;
    take();
    has_generation_ = true;
  } else if (tag == "print") {
    s->kind = StmtKind::output;
    while (now().token != Token::block_end) {
      if (!s->parts.empty()) expect_op(",");
      s->parts.push_back(expression());
    }
  } else {
    s->kind = tag == "break" ? StmtKind::break_ : StmtKind::continue_;
    if (loops_ == 0) syntax(fmt::format("'{}' outside loop", tag));
  }
  out.push_back(std::move(s));
}

void Parser::set(Stmt& s) {
  s.target = target("", true);
  if (skip_op("=")) {
    s.kind = StmtKind::set;
    s.expr = tuple(false, true, "", false, false);
    return;
  }
  s.kind = StmtKind::set_block;
  while (skip_op("|")) s.expr = filter(std::move(s.expr));
  s.body = block({"endset"});
  take();
}

void Parser::loop(Stmt& s) {
  s.kind = StmtKind::loop;
  const size_t begin = at_;
  s.target = target("in", false);
  expect_name("in");
  s.expr = tuple(false, false, "recursive", false, false);
  if (skip_name("if")) s.test = expression();
  if (is_name("recursive")) unsupported("recursive loops");
  ++loops_;
  s.body = block({"endfor", "else"});
  --loops_;
  if (take().text == "else") {
    s.otherwise = block({"endfor"});
    take();
  }
  if (s.test) {  // the test binds the target by itself
    const size_t end = at_;
    at_ = begin;
    s.test_target = target("in", false);
    at_ = end;
  }
}

void Parser::branch(Stmt& s) {
  s.kind = StmtKind::branch;
  while (true) {
    Branch b;
    b.test = tuple(false, false, "", false, false);
    b.body = block({"elif", "else", "endif"});
    s.branches.push_back(std::move(b));
    const std::string end = take().text;
    if (end == "elif") continue;
    if (end == "else") {
      Branch last;
      last.body = block({"endif"});
      take();
      s.branches.push_back(std::move(last));
    }
    return;
  }
}

void Parser::signature(Function& f) {
  expect_op("(");
  while (!is_op(")")) {
    if (!f.parameters.empty()) expect_op(",");
    f.parameters.push_back(expect_any_name());
    if (skip_op("=")) {
      f.defaults.push_back(expression());
    } else if (!f.defaults.empty()) {
      syntax("non-default argument follows default argument");
    }
  }
  expect_op(")");
}

void Parser::macro(Stmt& s) {
  s.kind = StmtKind::macro;
  s.function = std::make_shared<Function>();
  s.function->name = expect_any_name();
  signature(*s.function);
  const int outer = std::exchange(loops_, 0);
  s.function->body = block({"endmacro"});
  loops_ = outer;
  take();
}

void Parser::call_block(Stmt& s) {
  s.kind = StmtKind::call_block;
  s.function = std::make_shared<Function>();
  if (is_op("(")) signature(*s.function);
  s.expr = expression();
  if (s.expr->op != Op::call) syntax("expected call");
  const int outer = std::exchange(loops_, 0);
  s.function->body = block({"endcall"});
  loops_ = outer;
  take();
}

void Parser::with(Stmt& s) {
  s.kind = StmtKind::with;
  while (now().token != Token::block_end) {
    if (!s.targets.empty()) expect_op(",");
    s.targets.push_back(target("", false));
    expect_op("=");
    s.parts.push_back(expression());
  }
  s.body = block({"endwith"});
  take();
}

Parsed parse(std::string_view source) {
  Parser parser(source);
  Parsed parsed;
  parsed.body = parser.parse_template();
  parsed.has_generation = parser.has_generation();
  bind(parsed);
  return parsed;
}

}  // namespace tern::jinja
