// Which variable a name means. Jinja2 compiles a template to Python functions whose locals are its variables, after an
// analysis of who loads and stores what; its corner cases (a name that a later {% set %} hides, loops that start anew
// from the outer value) come from there, so the same analysis stands here.
// Source  the behaviour of jinja2/idtracking.py and compiler.py 3.1.6.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "formats/jinja/jinja_impl.h"

namespace tern::jinja {
namespace {

struct FunctionScope {  // one Python function: the template itself, or a macro
  FunctionScope* parent = nullptr;
  uint32_t num_slots = 0;
};

struct Variable {
  FunctionScope* function = nullptr;
  uint32_t slot = 0;
};

struct Symbols {
  Symbols* parent = nullptr;
  FunctionScope* function = nullptr;
  std::shared_ptr<std::map<std::string, uint32_t>> slots;  // shared between the copies that branches make
  std::map<std::string, Variable> refs;
  struct LoadEntry {
    Load::Action action;
    Variable from;
    std::string name;
  };
  std::map<uint32_t, LoadEntry> loads;
  std::set<std::string> stores;

  Symbols(Symbols* p, FunctionScope* f)
      : parent(p), function(f), slots(std::make_shared<std::map<std::string, uint32_t>>()) {}

  const Variable* find(const std::string& name) const {
    for (const Symbols* s = this; s; s = s->parent)
      if (const auto found = s->refs.find(name); found != s->refs.end()) return &found->second;
    return nullptr;
  }
  uint32_t define(const std::string& name, LoadEntry load) {
    const auto [slot, fresh] = slots->emplace(name, function->num_slots);
    if (fresh) ++function->num_slots;
    refs[name] = {function, slot->second};
    loads[slot->second] = std::move(load);
    return slot->second;
  }
  void load(const std::string& name) {
    if (!find(name)) define(name, {Load::Action::resolve, {}, name});
  }
  void store(const std::string& name) {
    stores.insert(name);
    if (refs.count(name)) return;
    const Variable* outer = parent ? parent->find(name) : nullptr;
    if (outer) {
      define(name, {Load::Action::alias, *outer, name});
    } else {
      define(name, {Load::Action::undefined, {}, name});
    }
  }
  uint32_t parameter(const std::string& name) {
    stores.insert(name);
    return define(name, {Load::Action::parameter, {}, name});
  }
  void merge(const std::vector<Symbols>& branches) {
    std::set<std::string> fresh;
    for (const Symbols& b : branches)
      for (const std::string& name : b.stores)
        if (!stores.count(name)) fresh.insert(name);
    for (const Symbols& b : branches) {
      for (const auto& [name, v] : b.refs) refs[name] = v;
      for (const auto& [slot, l] : b.loads) loads[slot] = l;
      stores.insert(b.stores.begin(), b.stores.end());
    }
    for (const std::string& name : fresh) {
      const uint32_t slot = find(name)->slot;
      const Variable* outer = parent ? parent->find(name) : nullptr;
      loads[slot] = outer ? LoadEntry{Load::Action::alias, *outer, name} : LoadEntry{Load::Action::resolve, {}, name};
    }
  }
};

template <class F>
void each_child(const Expr& e, F&& f) {
  for (const ExprPtr& operand : e.operands)
    if (operand) f(*operand);
  if (!e.arguments) return;
  for (const ExprPtr& a : e.arguments->positional) f(*a);
  for (const auto& [name, a] : e.arguments->keywords) f(*a);
  if (e.arguments->star) f(*e.arguments->star);
  if (e.arguments->star_star) f(*e.arguments->star_star);
}

bool names(const Expr* e, const std::string& name);
bool names(const StmtList& body, const std::string& name);

// Does the body load this name anywhere?
bool names(const Expr* e, const std::string& name) {
  if (!e) return false;
  if (e->op == Op::name && !e->store && e->name == name) return true;
  bool found = false;
  each_child(*e, [&](const Expr& child) { found = found || names(&child, name); });
  return found;
}

bool names(const StmtList& body, const std::string& name) {
  for (const auto& s : body) {
    if (names(s->target.get(), name) || names(s->expr.get(), name) || names(s->test.get(), name)) return true;
    for (const ExprPtr& e : s->parts)
      if (names(e.get(), name)) return true;
    for (const Branch& b : s->branches)
      if (names(b.test.get(), name) || names(b.body, name)) return true;
    if (names(s->body, name) || names(s->otherwise, name)) return true;
    if (!s->function) continue;
    for (const ExprPtr& e : s->function->defaults)
      if (names(e.get(), name)) return true;
    if (names(s->function->body, name)) return true;
  }
  return false;
}

// ---- first pass of a frame: who loads and stores what, not entering the frames within

void analyze(const Expr* e, Symbols& symbols, bool as_parameter = false) {
  if (!e) return;
  if (e->op == Op::name) {
    if (as_parameter) {
      symbols.parameter(e->name);
    } else if (e->store) {
      symbols.store(e->name);
    } else {
      if (e->name == "self" && !symbols.find(e->name))
        throw Failure{JinjaFault::unsupported, "the variable 'self': blocks", e->line};
      symbols.load(e->name);
    }
    return;
  }
  if (e->op == Op::namespace_target) symbols.load(e->owner);
  each_child(*e, [&](const Expr& child) { analyze(&child, symbols, as_parameter); });
}

void analyze(const StmtList& body, Symbols& symbols);

void analyze(const Stmt& s, Symbols& symbols) {
  switch (s.kind) {
    case StmtKind::output:
    case StmtKind::with:
      for (const ExprPtr& e : s.parts) analyze(e.get(), symbols);
      break;
    case StmtKind::set:
      analyze(s.expr.get(), symbols);
      analyze(s.target.get(), symbols);
      break;
    case StmtKind::set_block:
      analyze(s.target.get(), symbols);
      break;
    case StmtKind::branch: {
      // {% elif %} is an if within the else to the analysis: its test belongs to a branch of the first
      analyze(s.branches[0].test.get(), symbols);
      std::vector<Symbols> branches;
      Symbols first = symbols;
      analyze(s.branches[0].body, first);
      branches.push_back(std::move(first));
      Symbols middle = symbols;
      for (size_t i = 1; i < s.branches.size(); ++i) {
        if (!s.branches[i].test) continue;
        analyze(s.branches[i].test.get(), middle);
        Symbols inner = middle;
        analyze(s.branches[i].body, inner);
        middle.merge({inner});
      }
      branches.push_back(std::move(middle));
      Symbols last = symbols;
      if (s.branches.size() > 1 && !s.branches.back().test) analyze(s.branches.back().body, last);
      branches.push_back(std::move(last));
      symbols.merge(branches);
      break;
    }
    case StmtKind::loop:
    case StmtKind::call_block:
    case StmtKind::filter_block:  // the filter's arguments
      analyze(s.expr.get(), symbols);
      break;
    case StmtKind::macro:
      symbols.store(s.function->name);
      break;
    case StmtKind::generation:
    case StmtKind::break_:
    case StmtKind::continue_:
      break;
  }
}

void analyze(const StmtList& body, Symbols& symbols) {
  for (const auto& s : body) analyze(*s, symbols);
}

// ---- second pass: every name gets its place

class Binder {
 public:
  explicit Binder(Parsed& parsed) : parsed_(parsed) {}

  void run() {
    FunctionScope root;
    Symbols symbols(nullptr, &root);
    analyze(parsed_.body, symbols);
    parsed_.frame = frame_of(symbols);
    bind(parsed_.body, symbols, false);
    parsed_.num_slots = root.num_slots;
    std::sort(parsed_.names.begin(), parsed_.names.end());
    parsed_.names.erase(std::unique(parsed_.names.begin(), parsed_.names.end()), parsed_.names.end());
  }

 private:
  static Place place_of(const Variable& v, const FunctionScope* from) {
    Place place{0, v.slot};
    for (; from != v.function; from = from->parent) ++place.hops;
    return place;
  }
  static Place place_of(const Symbols& symbols, const std::string& name, int line) {
    const Variable* v = symbols.find(name);
    if (!v) throw Failure{JinjaFault::unsupported, fmt::format("cannot tell what '{}' means here", name), line};
    return place_of(*v, symbols.function);
  }
  static Frame frame_of(const Symbols& symbols) {
    Frame frame;
    for (const auto& [slot, load] : symbols.loads)
      if (load.action != Load::Action::parameter)
        frame.push_back({load.action, slot,
                         load.action == Load::Action::alias ? place_of(load.from, symbols.function) : Place{},
                         load.name});
    return frame;
  }

  void bind(Expr* e, Symbols& symbols, bool soft) {
    if (!e) return;
    switch (e->op) {
      case Op::name:
        e->place = place_of(symbols, e->name, e->line);
        parsed_.names.push_back(e->name);
        return;
      case Op::namespace_target:
        e->place = place_of(symbols, e->owner, e->line);
        return;
      case Op::conditional:
        soft = true;
        break;
      case Op::filter:
        e->filter = find_filter(e->name);
        if (!e->filter) unknown(*e, "filter", is_foreign_filter(e->name), filter_names(), soft);
        break;
      case Op::test:
        e->test = find_test(e->name);
        if (!e->test) unknown(*e, "test", is_foreign_test(e->name), test_names(), soft);
        break;
      case Op::call:
        if (const Expr& callee = *e->operands[0]; callee.op == Op::attribute && is_foreign_method(callee.name))
          throw Failure{JinjaFault::unsupported, fmt::format("Python's method '{}'", callee.name), e->line};
        break;
      default:
        break;
    }
    each_child(*e, [&](const Expr& child) { bind(const_cast<Expr*>(&child), symbols, soft); });
  }

  // Jinja2 refuses unknown names when it compiles, except within an if, where they may be guarded.
  void unknown(const Expr& e, const char* what, bool foreign, const std::vector<std::string_view>& known, bool soft) {
    if (foreign) throw Failure{JinjaFault::unsupported, fmt::format("the {} '{}'", what, e.name), e.line};
    const std::string near = did_you_mean(e.name, known);
    if (!soft)
      throw Failure{JinjaFault::syntax, fmt::format("No {} named {}{}.", what, repr_text(e.name.substr(0, 60)), near),
                    e.line};
    parsed_.notes.push_back(fmt::format("line {}: no {} is named '{}'; rendering fails where it is reached{}", e.line,
                                        what, e.name.substr(0, 60), near));
  }

  void bind(std::vector<ExprPtr>& list, Symbols& symbols, bool soft) {
    for (const ExprPtr& e : list) bind(e.get(), symbols, soft);
  }

  void bind(StmtList& body, Symbols& symbols, bool soft) {
    for (const auto& s : body) bind(*s, symbols, soft);
  }

  void bind(Stmt& s, Symbols& symbols, bool soft) {
    switch (s.kind) {
      case StmtKind::output:
        return bind(s.parts, symbols, soft);
      case StmtKind::set:
        bind(s.expr.get(), symbols, soft);
        return bind(s.target.get(), symbols, soft);
      case StmtKind::set_block:
        bind_set_block(s, symbols);
        return bind(s.target.get(), symbols, soft);
      case StmtKind::branch:
        for (Branch& b : s.branches) {
          bind(b.test.get(), symbols, true);
          bind(b.body, symbols, true);
        }
        return;
      case StmtKind::loop:
        return bind_loop(s, symbols, soft);
      case StmtKind::macro:
        bind_function(*s.function, symbols);
        s.place = place_of(symbols, s.function->name, s.line);
        return;
      case StmtKind::call_block:
        bind_function(*s.function, symbols);
        return bind(s.expr.get(), symbols, soft);
      case StmtKind::generation:
        return bind_function(*s.function, symbols);
      case StmtKind::filter_block: {
        Symbols inner(&symbols, symbols.function);
        analyze(s.body, inner);
        analyze(s.expr.get(), inner);
        s.frame = frame_of(inner);
        bind(s.body, inner, false);
        return bind(s.expr.get(), inner, false);
      }
      case StmtKind::with: {
        Symbols inner(&symbols, symbols.function);
        for (const ExprPtr& t : s.targets) analyze(t.get(), inner, true);
        analyze(s.body, inner);
        s.frame = frame_of(inner);
        bind(s.parts, symbols, soft);
        bind(s.targets, inner, false);
        return bind(s.body, inner, false);
      }
      case StmtKind::break_:
      case StmtKind::continue_:
        return;
    }
  }

  void bind_set_block(Stmt& s, Symbols& symbols) {
    Symbols inner(&symbols, symbols.function);
    analyze(s.body, inner);
    // the filter is evaluated within the block's frame, whose analysis does not see it
    s.frame = frame_of(inner);
    bind(s.body, inner, false);
    if (!s.expr) return;
    check_filter_names(*s.expr, inner);
    bind(s.expr.get(), inner, false);
  }

  static void check_filter_names(const Expr& e, Symbols& symbols) {
    each_child(e, [&](const Expr& child) {
      if (child.op == Op::name && !symbols.find(child.name))
        throw Failure{JinjaFault::unsupported, "a variable first named in the filter of a set block", child.line};
      check_filter_names(child, symbols);
    });
  }

  void bind_loop(Stmt& s, Symbols& symbols, bool soft) {
    Symbols body(&symbols, symbols.function);
    s.has_loop = names(s.body, "loop");
    if (s.has_loop) s.loop_slot = body.parameter("loop");
    if (names_store(*s.target, "loop") || stores_loop(s.body))
      throw Failure{JinjaFault::syntax, "Can't assign to special loop variable in for-loop target", s.line};
    analyze(s.target.get(), body, true);
    analyze(s.body, body);
    s.frame = frame_of(body);
    bind(s.expr.get(), symbols, soft);
    if (s.test) {
      Symbols test(&symbols, symbols.function);
      analyze(s.test_target.get(), test, true);
      analyze(s.test.get(), test);
      s.test_frame = frame_of(test);
      bind(s.test_target.get(), test, false);
      bind(s.test.get(), test, false);
    }
    bind(s.target.get(), body, false);
    bind(s.body, body, false);
    Symbols otherwise(&symbols, symbols.function);
    analyze(s.otherwise, otherwise);
    s.else_frame = frame_of(otherwise);
    bind(s.otherwise, otherwise, false);
  }

  static bool names_store(const Expr& e, std::string_view name) {
    if (e.op == Op::name) return e.store && e.name == name;
    for (const ExprPtr& operand : e.operands)
      if (operand && names_store(*operand, name)) return true;
    return false;
  }
  static bool stores_loop(const StmtList& body) {
    for (const auto& s : body) {
      if (s->target && names_store(*s->target, "loop")) return true;
      for (const Branch& b : s->branches)
        if (stores_loop(b.body)) return true;
      if (s->kind != StmtKind::loop && stores_loop(s->body)) return true;
    }
    return false;
  }

  void bind_function(Function& f, Symbols& symbols) {
    FunctionScope function{symbols.function, 0};
    Symbols inner(&symbols, &function);
    for (const std::string& name : f.parameters) {
      inner.parameter(name);
      f.explicit_caller = f.explicit_caller || name == "caller";
    }
    for (const ExprPtr& e : f.defaults) analyze(e.get(), inner);
    const auto named = [&](const char* name) { return names(f.body, name); };
    const auto parameter = [&](const char* name) {
      return std::find(f.parameters.begin(), f.parameters.end(), name) != f.parameters.end();
    };
    if (named("caller") && !f.explicit_caller) f.caller_slot = static_cast<int>(inner.parameter("caller"));
    if (named("kwargs") && !parameter("kwargs")) f.kwargs_slot = static_cast<int>(inner.parameter("kwargs"));
    if (named("varargs") && !parameter("varargs")) f.varargs_slot = static_cast<int>(inner.parameter("varargs"));
    analyze(f.body, inner);
    for (const std::string& name : f.parameters) f.parameter_slots.push_back(inner.find(name)->slot);
    f.frame = frame_of(inner);
    bind(f.defaults, inner, false);
    bind(f.body, inner, false);
    f.num_slots = function.num_slots;
  }

  Parsed& parsed_;
};

}  // namespace

void bind(Parsed& parsed) { Binder(parsed).run(); }

}  // namespace tern::jinja
