// Statements.
#include "formats/jinja/eval.h"

#include <fmt/format.h>

namespace tern::jinja {

// Failures pass on; the innermost line that is known stays.
struct Evaluator::Line {
  template <class F>
  static auto with(int line, F&& f) -> decltype(f()) {
    try {
      return f();
    } catch (Failure& failure) {
      if (failure.line == 0) failure.line = line;
      throw;
    }
  }
};

Evaluator::Evaluator(const Parsed& parsed, const std::vector<JinjaVariable>& variables,
                     const JinjaRenderOptions& options)
    : meter(options.limits), now(options.now), parsed_(parsed) {
  for (const JinjaVariable& v : variables)  // not counted: the caller has bounded them
    variables_[v.name] = Maker{}.json(*v.value, v.from_user ? kMarkUser : 0);
  maker.meter = &meter;
}

MarkedText Evaluator::run() {
  MarkedText text;
  out_ = &text;
  const Home home = std::make_shared<Activation>();
  home->slots.resize(parsed_.num_slots);
  maker.kept.push_back(home);
  enter(parsed_.frame, home);
  run(parsed_.body, home);
  return text;
}

Value& Evaluator::slot(Place place, const Home& home) {
  Activation* a = home.get();
  for (uint32_t i = 0; i < place.hops; ++i) a = a->parent.get();
  return a->slots[place.index];
}

void Evaluator::enter(const Frame& frame, const Home& home) {
  for (const Load& load : frame) {
    Value& target = home->slots[load.slot];
    switch (load.action) {
      case Load::Action::alias:
        target = slot(load.from, home);
        break;
      case Load::Action::resolve:
        if (const auto given = variables_.find(load.name); given != variables_.end()) {
          target = given->second;
        } else if (auto global = find_global(maker, load.name)) {
          target = *global;
        } else {
          target = Value();
        }
        break;
      case Load::Action::undefined:
        target = Value();
        break;
      case Load::Action::parameter:
        break;
    }
  }
}

void Evaluator::output(const Value& v) {
  if (v.is(Kind::text)) {
    meter.check_text(out_->size() + v.bytes().size());
    meter.work(v.bytes().size());
    out_->append(v.marked());
  } else {
    const MarkedText text = str(v);
    meter.check_text(out_->size() + text.size());
    out_->append(text);
  }
}

Evaluator::Flow Evaluator::run(const StmtList& body, const Home& home) {
  for (const auto& s : body) {
    const Flow flow = run(*s, home);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::run(const Stmt& s, const Home& home) {
  return Line::with(s.line, [&]() -> Flow {
    const Level level(meter);
    meter.step();
    Flow flow = Flow::normal;
    switch (s.kind) {
      case StmtKind::output:
        for (const ExprPtr& part : s.parts) output(eval(*part, home));
        return flow;
      case StmtKind::set:
        check_namespaces(*s.target, home);
        assign(*s.target, eval(*s.expr, home), home);
        return flow;
      case StmtKind::set_block:
        run_set_block(s, home, flow);
        return flow;
      case StmtKind::branch:
        for (const Branch& b : s.branches)
          if (!b.test || truth(eval(*b.test, home))) return run(b.body, home);
        return flow;
      case StmtKind::loop:
        return run_loop(s, home);
      case StmtKind::macro:
        slot(s.place, home) = make_macro(s.function, home);
        return flow;
      case StmtKind::call_block: {
        CallArguments arguments = eval_arguments(*s.expr->arguments, home);
        const Value callee = eval(*s.expr->operands[0], home);
        arguments.keywords.emplace_back("caller", make_macro(s.function, home));
        output(call(callee, arguments));
        return flow;
      }
      case StmtKind::generation: {
        const Value body = make_macro(s.function, home);
        MarkedText text = call_macro(static_cast<const MacroObject&>(*body.object()), {});
        text.add_marks(kMarkGeneration);
        meter.check_text(out_->size() + text.size());
        out_->append(text);
        return flow;
      }
      case StmtKind::filter_block:
        run_filter_block(s, home, flow);
        return flow;
      case StmtKind::with:
        enter(s.frame, home);
        for (size_t i = 0; i < s.targets.size(); ++i) assign(*s.targets[i], eval(*s.parts[i], home), home);
        return run(s.body, home);
      case StmtKind::break_:
        return Flow::break_;
      case StmtKind::continue_:
        return Flow::continue_;
    }
    return flow;
  });
}

namespace {

// Output into a buffer of its own for a while.
struct Redirect {
  Redirect(MarkedText*& out, MarkedText& buffer) : where(out), before(out) { out = &buffer; }
  ~Redirect() { where = before; }
  MarkedText*& where;
  MarkedText* before;
};

}  // namespace

void Evaluator::run_set_block(const Stmt& s, const Home& home, Flow& flow) {
  MarkedText buffer;
  enter(s.frame, home);
  {
    const Redirect redirect(out_, buffer);
    flow = run(s.body, home);
  }
  if (flow != Flow::normal) return;
  Value v = text(std::move(buffer));
  if (s.expr) v = eval_filter(*s.expr, home, &v);
  check_namespaces(*s.target, home);
  assign(*s.target, v, home);
}

void Evaluator::run_filter_block(const Stmt& s, const Home& home, Flow& flow) {
  MarkedText buffer;
  enter(s.frame, home);
  {
    const Redirect redirect(out_, buffer);
    flow = run(s.body, home);
  }
  if (flow != Flow::normal) return;
  const Value v = text(std::move(buffer));
  output(eval_filter(*s.expr, home, &v));
}

// ---- loops

void LoopObject::drop() {
  source = nullptr;
  iterable = before = current = after = last_changed = Value();
  closed = true;
}

bool LoopObject::peek() {
  if (closed) return false;
  if (!peeked) {
    peeked = true;
    peeked_end = !source(after);
  }
  return !peeked_end;
}

bool LoopObject::next() {
  if (!peek()) return false;
  peeked = false;
  ++index0;
  before = current;
  current = after;
  return true;
}

Int LoopObject::length(const Maker& maker) {
  if (known_length || closed) return known_length.value_or(0);
  if (iterable.is(Kind::missing)) {  // walk to the end, and hand the items out again
    ValueList rest;
    for (Value v; source(v);) {
      maker.meter->work(64);
      maker.meter->step();
      rest.push_back(v);
    }
    known_length = static_cast<Int>(rest.size()) + index0 + 1 + (peeked && !peeked_end ? 1 : 0);
    source = walk(maker, maker.list(std::move(rest)));
  } else {
    known_length = static_cast<Int>(jinja::length(iterable));
  }
  return *known_length;
}

Evaluator::Flow Evaluator::run_loop(const Stmt& s, const Home& home) {
  const Value iterable = eval(*s.expr, home);
  auto source = walk(maker, iterable);
  if (s.test) {
    source = [this, &s, &home, inner = std::move(source), entered = false](Value& out) mutable {
      if (!entered) enter(s.test_frame, home);
      entered = true;
      while (inner(out)) {
        meter.step();
        assign(*s.test_target, out, home);
        if (truth(eval(*s.test, home))) return true;
      }
      return false;
    };
  }
  const auto loop = std::make_shared<LoopObject>();
  struct Close {
    LoopObject& loop;
    ~Close() { loop.drop(); }
  } close{*loop};
  loop->depth = iterable.depth() + 1;
  loop->source = std::move(source);
  const bool sized = !s.test && !iterable.is(Kind::iterator) && !iterable.is(Kind::loop);
  if (sized) loop->iterable = iterable;
  const Value loop_value(Kind::loop, loop);

  bool finished_a_turn = false;
  while (loop->next()) {
    meter.step();
    assign(*s.target, loop->current, home);
    if (s.has_loop) home->slots[s.loop_slot] = loop_value;
    enter(s.frame, home);
    const Flow flow = run(s.body, home);
    if (flow == Flow::break_) break;
    if (flow == Flow::continue_) continue;
    finished_a_turn = true;  // Jinja2 asks whether a turn came to its end, not whether there was one
  }
  if (!finished_a_turn && !s.otherwise.empty()) {
    enter(s.else_frame, home);
    return run(s.otherwise, home);
  }
  return Flow::normal;
}

// ---- assignment

void Evaluator::check_namespaces(const Expr& target, const Home& home) {
  if (target.op == Op::namespace_target && !slot(target.place, home).is(Kind::name_space))
    fail(JinjaFault::runtime, "cannot assign attribute on non-namespace object");
  if (target.op == Op::tuple)
    for (const ExprPtr& part : target.operands) check_namespaces(*part, home);
}

void Evaluator::assign(const Expr& target, const Value& v, const Home& home) {
  if (target.op == Op::name) {
    slot(target.place, home) = v;
    return;
  }
  if (target.op == Op::namespace_target) {
    if (target.name.starts_with('_'))
      fail(JinjaFault::security,
           fmt::format("Chat templates cannot store underscore-prefixed attributes on a namespace, "
                       "but got {}. Please rename the attribute.",
                       repr_text(target.name)));
    auto& names = slot(target.place, home).name_space();
    for (auto& [name, value] : names.attributes)
      if (name == target.name) {
        value = v;
        return;
      }
    names.attributes.emplace_back(target.name, v);
    return;
  }
  const size_t want = target.operands.size();
  if (!iterable(v)) type_error(fmt::format("cannot unpack non-iterable {} object", type_name(v)));
  const auto next = walk(maker, v);
  ValueList parts;
  for (Value part; parts.size() <= want && next(part);) parts.push_back(part);
  if (parts.size() > want) type_error(fmt::format("too many values to unpack (expected {})", want));
  if (parts.size() < want)
    type_error(fmt::format("not enough values to unpack (expected {}, got {})", want, parts.size()));
  for (size_t i = 0; i < want; ++i) assign(*target.operands[i], parts[i], home);
}

// ---- macros

Value Evaluator::make_macro(const std::shared_ptr<const Function>& f, const Home& home) {
  auto macro = std::make_shared<MacroObject>();
  macro->function = f;
  macro->home = home;
  if (home->parent && !home->held) {  // a macro of a macro may be kept by what it keeps
    home->held = std::make_unique<Held>(&meter, 128 + home->slots.size() * sizeof(Value));
    maker.kept.push_back(home);
  }
  return Value(Kind::macro, std::move(macro));
}

std::string macro_name(const Value& macro) { return static_cast<const MacroObject&>(*macro.object()).function->name; }

std::string loop_text(const Value& loop) {
  auto& l = static_cast<LoopObject&>(*loop.object());
  return fmt::format("<LoopContext {}>", l.index0 + 1);
}

namespace {

// The named arguments of a call, each of which is taken once.
struct Keywords {
  const CallArguments& arguments;
  std::vector<bool> used = std::vector<bool>(arguments.keywords.size());

  const Value* take(const std::string& name) {
    for (size_t i = 0; i < used.size(); ++i)
      if (!used[i] && arguments.keywords[i].first == name) {
        used[i] = true;
        return &arguments.keywords[i].second;
      }
    return nullptr;
  }
  Value rest(Evaluator& ev) const {
    DictBuilder dict(&ev.meter);
    for (size_t i = 0; i < used.size(); ++i)
      if (!used[i]) dict.set(ev.maker.text(arguments.keywords[i].first), arguments.keywords[i].second);
    return dict.finish();
  }
  void refuse_rest(const std::string& shown) const {
    for (size_t i = 0; i < used.size(); ++i)
      if (!used[i] && arguments.keywords[i].first == "caller")
        type_error(
            fmt::format("macro {} was invoked with two values for the special caller argument. This is most "
                        "likely a bug.",
                        shown));
    for (size_t i = 0; i < used.size(); ++i)
      if (!used[i])
        type_error(fmt::format("macro {} takes no keyword argument {}", shown, repr_text(arguments.keywords[i].first)));
  }
};

// Writes the arguments to the macro's slots; a parameter that has none stays missing.
void place_arguments(Evaluator& ev, const Function& f, const CallArguments& arguments, ValueList& slots) {
  Keywords keywords{arguments};
  const size_t count = f.parameters.size(), given = arguments.positional.size();
  ValueList values(count);
  for (size_t i = 0; i < count; ++i) {
    if (i < given) {
      values[i] = arguments.positional[i];
    } else if (const Value* v = keywords.take(f.parameters[i])) {
      values[i] = *v;
    }
  }
  const std::string shown = f.name.empty() ? "None" : repr_text(f.name);
  if (f.caller_slot >= 0) {
    const Value* v = keywords.take("caller");
    slots[static_cast<size_t>(f.caller_slot)] = v && !v->is(Kind::none) ? *v : ev.maker.undefined("No caller defined");
  }
  if (f.kwargs_slot >= 0)
    slots[static_cast<size_t>(f.kwargs_slot)] = keywords.rest(ev);
  else
    keywords.refuse_rest(shown);
  if (f.varargs_slot >= 0) {
    ValueList rest;
    for (size_t i = count; i < given; ++i) rest.push_back(arguments.positional[i]);
    slots[static_cast<size_t>(f.varargs_slot)] = ev.maker.list(std::move(rest), Kind::tuple);
  } else if (given > count) {
    type_error(fmt::format("macro {} takes not more than {} argument(s)", shown, count));
  }
  for (size_t i = 0; i < count; ++i) slots[f.parameter_slots[i]] = values[i];
}

}  // namespace

MarkedText Evaluator::call_macro(const MacroObject& macro, const CallArguments& arguments) {
  const Level level(meter);
  meter.step();
  const Function& f = *macro.function;
  const Home home = std::make_shared<Activation>();
  const Held held(&meter, 64 + f.num_slots * sizeof(Value));
  home->parent = macro.home;
  home->slots.resize(f.num_slots);
  place_arguments(*this, f, arguments, home->slots);
  enter(f.frame, home);
  const size_t count = f.parameters.size();
  for (size_t i = 0; i < count; ++i) {
    Value& target = home->slots[f.parameter_slots[i]];
    if (!target.is(Kind::missing)) continue;
    const size_t first_default = count - f.defaults.size();
    target = i >= first_default
                 ? eval(*f.defaults[i - first_default], home)
                 : maker.undefined(fmt::format("parameter {} was not provided", repr_text(f.parameters[i])));
  }
  MarkedText buffer;
  const Redirect redirect(out_, buffer);
  run(f.body, home);
  return buffer;
}

}  // namespace tern::jinja
