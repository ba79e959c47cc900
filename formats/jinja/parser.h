#pragma once
// Recursive descent over the tokens; expressions in parser_expr.cpp, statements in parser.cpp.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/ast.h"
#include "formats/jinja/lexer.h"

namespace tern::jinja {

/// Parses one template. Errors of its functions: Failure: syntax, unsupported, limit.
class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(lex(source)) {}
  StmtList parse_template();
  bool has_generation() const { return has_generation_; }

 private:
  // tokens
  const TokenAt& now() const { return tokens_[at_]; }
  const TokenAt& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const TokenAt& take();
  bool is_op(std::string_view op) const { return now().is(Token::op, op); }
  bool is_name(std::string_view name) const { return now().is(Token::name, name); }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  void expect(Token token);
  [[noreturn]] void syntax(std::string reason) const;
  [[noreturn]] void unsupported(std::string reason) const;
  std::string describe() const;

  // statements
  StmtList statements(std::initializer_list<std::string_view> ends);  // stops at, does not take, the end's name
  StmtList block(std::initializer_list<std::string_view> ends);       // from the end of the opening tag on
  void statement(StmtList& out);
  void set(Stmt& s);
  void loop(Stmt& s);
  void branch(Stmt& s);
  void macro(Stmt& s);
  void call_block(Stmt& s);
  void with(Stmt& s);
  void signature(Function& f);

  // expressions
  ExprPtr make(Op op, int line) const;
  ExprPtr join(Op op, int line, ExprPtr a, ExprPtr b = nullptr, ExprPtr c = nullptr) const;
  void settle(Expr& e) const;  // depth of the tree
  ExprPtr expression(bool conditional = true);
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary(bool with_namespace = false);
  ExprPtr name_or_constant(bool with_namespace);
  ExprPtr text_constant();
  ExprPtr integer_constant();
  ExprPtr real_constant();
  ExprPtr list_or_dict();
  ExprPtr tuple(bool simplified, bool conditional, std::string_view end_name, bool parentheses, bool with_namespace);
  ExprPtr postfix(ExprPtr e);
  ExprPtr filters_and_tests(ExprPtr e);
  ExprPtr subscript(ExprPtr e);
  ExprPtr subscribed();
  ExprPtr call(ExprPtr e);
  ExprPtr filter(ExprPtr e);  // the cursor at the name
  ExprPtr test(ExprPtr e);
  std::unique_ptr<Arguments> arguments();
  ExprPtr target(std::string_view end_name, bool with_namespace);
  void mark_store(Expr& e);

  std::vector<TokenAt> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // break and continue need one
  bool has_generation_ = false;
  struct Nested;
};

}  // namespace tern::jinja
