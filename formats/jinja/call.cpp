// Binding of arguments, and the global functions.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "formats/jinja/eval.h"
#include "formats/jinja/format.h"

namespace tern::jinja {

Signature::Signature(std::string_view callee, std::string_view names, const CallArguments& arguments) {
  struct Parameter {
    std::string_view name;
    bool optional;
  };
  std::vector<Parameter> parameters;
  for (std::string_view name : split_words(names)) {
    const bool optional = name.ends_with('?');
    if (optional) name.remove_suffix(1);
    parameters.push_back({name, optional});
  }
  if (arguments.positional.size() > parameters.size())
    type_error(fmt::format("{}() takes at most {} argument(s) ({} given)", callee, parameters.size(),
                           arguments.positional.size()));
  values_ = arguments.positional;
  values_.resize(parameters.size());
  for (const auto& [name, value] : arguments.keywords) {
    size_t i = 0;
    while (i < parameters.size() && parameters[i].name != name) ++i;
    if (i == parameters.size())
      type_error(fmt::format("{}() got an unexpected keyword argument {}", callee, repr_text(name)));
    if (given(i)) type_error(fmt::format("{}() got multiple values for argument {}", callee, repr_text(name)));
    values_[i] = value;
  }
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!given(i) && !parameters[i].optional)
      type_error(fmt::format("{}() missing 1 required positional argument: '{}'", callee, parameters[i].name));
}

namespace {

enum class Global { range, dict, name_space, cycler, joiner, raise_exception, strftime_now, lipsum };
constexpr std::pair<std::string_view, Global> kGlobals[] = {{"range", Global::range},
                                                            {"dict", Global::dict},
                                                            {"namespace", Global::name_space},
                                                            {"cycler", Global::cycler},
                                                            {"joiner", Global::joiner},
                                                            {"raise_exception", Global::raise_exception},
                                                            {"strftime_now", Global::strftime_now},
                                                            {"lipsum", Global::lipsum}};

struct GlobalObject : Object {
  Global which = Global::range;
};

Value make_range(Evaluator& ev, const CallArguments& arguments) {
  if (!arguments.keywords.empty()) type_error("range() takes no keyword arguments");
  const ValueList& a = arguments.positional;
  if (a.empty() || a.size() > 3) type_error(fmt::format("range expected 1 to 3 arguments, got {}", a.size()));
  for (const Value& v : a) {
    defined(v);
    if (!v.is_integral()) type_error(fmt::format("'{}' object cannot be interpreted as an integer", type_name(v)));
  }
  auto r = std::make_shared<RangeObject>();
  r->start = a.size() > 1 ? a[0].integer() : 0;
  r->step = a.size() > 2 ? a[2].integer() : 1;
  if (r->step == 0) type_error("range() arg 3 must not be zero");
  Int span = 0;
  const Int stop = a[a.size() > 1 ? 1 : 0].integer();
  if (__builtin_sub_overflow(stop, r->start, &span)) fail(JinjaFault::limit, "an integer beyond 128 bits");
  if (r->step < 0) {
    span = -span;
    r->step = -r->step;
  }
  r->size = span > 0 ? (span - 1) / r->step + 1 : 0;
  if (a.size() > 2 && a[2].integer() < 0) r->step = -r->step;
  if (r->size > ev.meter.limits().max_range)
    fail(JinjaFault::limit, fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
                                        ev.meter.limits().max_range));
  return Value(Kind::range, std::move(r));
}

Value make_namespace(Evaluator& ev, const CallArguments& arguments) {
  const Value dict = make_dict(ev, arguments, "dict");
  auto names = std::make_shared<NamespaceObject>();
  for (const auto& [key, value] : dict.dict().items) {
    if (!key.is(Kind::text)) fail(JinjaFault::limit, "a namespace whose names are no texts");
    if (key.bytes().starts_with('_'))
      fail(JinjaFault::security,
           fmt::format("Chat templates cannot store underscore-prefixed attributes on a namespace, "
                       "but got {}. Please rename the attribute.",
                       repr_text(key.bytes())));
    names->attributes.emplace_back(key.bytes(), value);
  }
  names->held = std::make_unique<Held>(&ev.meter, 256 + names->attributes.size() * 96);
  ev.maker.kept.push_back(names);  // it may come to hold itself
  return Value(Kind::name_space, std::move(names));
}

}  // namespace

Value make_dict(Evaluator& ev, const CallArguments& arguments, const char* callee) {
  if (arguments.positional.size() > 1)
    type_error(fmt::format("{} expected at most 1 argument, got {}", callee, arguments.positional.size()));
  DictBuilder dict(&ev.meter);
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : from.dict().items) dict.set(key, value);
    } else {
      size_t i = 0;
      for (const Value& pair : to_list(ev.maker, from)) {
        const ValueList both = to_list(ev.maker, pair);
        if (both.size() != 2)
          type_error(
              fmt::format("dictionary update sequence element #{} has length {}; 2 is required", i, both.size()));
        dict.set(both[0], both[1]);
        ++i;
      }
    }
  }
  for (const auto& [name, value] : arguments.keywords) dict.set(ev.maker.text(name), value);
  return dict.finish();
}

std::optional<Value> find_global(const Maker&, std::string_view name) {
  for (const auto& [known, which] : kGlobals)
    if (known == name) {
      auto object = std::make_shared<GlobalObject>();
      object->which = which;
      return Value(Kind::function, std::move(object));
    }
  return std::nullopt;
}

Value call_global(Evaluator& ev, const Value& function, const CallArguments& arguments) {
  if (function.is(Kind::joiner)) {
    auto& joiner = static_cast<JoinerObject&>(*function.object());
    const Signature none("joiner", "", arguments);
    return std::exchange(joiner.used, true) ? joiner.separator : ev.maker.text("");
  }
  switch (static_cast<const GlobalObject&>(*function.object()).which) {
    case Global::range:
      return make_range(ev, arguments);
    case Global::dict:
      return make_dict(ev, arguments, "dict");
    case Global::name_space:
      return make_namespace(ev, arguments);
    case Global::cycler: {
      if (arguments.positional.empty()) fail(JinjaFault::runtime, "at least one item has to be provided");
      auto cycler = std::make_shared<CyclerObject>();
      cycler->items = arguments.positional;
      for (const Value& v : cycler->items) cycler->depth = std::max(cycler->depth, v.depth() + 1);
      if (cycler->depth > kJinjaMaxValueDepth) fail(JinjaFault::limit, "values nested too deep");
      return Value(Kind::cycler, std::move(cycler));
    }
    case Global::joiner: {
      const Signature a("joiner", "sep?", arguments);
      auto joiner = std::make_shared<JoinerObject>();
      joiner->separator = a.given(0) ? a[0] : ev.maker.text(", ");
      joiner->depth = joiner->separator.depth() + 1;
      if (joiner->depth > kJinjaMaxValueDepth) fail(JinjaFault::limit, "values nested too deep");
      return Value(Kind::joiner, std::move(joiner));
    }
    case Global::raise_exception: {
      const Signature a("raise_exception", "message", arguments);
      fail(JinjaFault::raised, ev.str(a[0]).bytes.substr(0, 1000));
    }
    case Global::strftime_now: {
      const Signature a("strftime_now", "format", arguments);
      defined(a[0]);
      if (!a[0].is(Kind::text)) type_error("strftime() argument 1 must be str, not " + std::string(type_name(a[0])));
      return ev.maker.text(format_time(ev.now, std::string(a[0].bytes())));
    }
    case Global::lipsum:
      fail(JinjaFault::unsupported, "lipsum(): it is random");
  }
  return Value::none();
}

std::string format_time(const std::tm& now, const std::string& format) {
  std::string plain;  // %f, %z and %Z are Python's own: no parts of a second, no zone
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      plain += format[i];
      continue;
    }
    const char c = format[++i];
    if (c == 'f') {
      plain += "000000";
    } else if (c != 'z' && c != 'Z') {
      plain += '%';
      plain += c;
    }
  }
  if (plain.empty()) return {};
  if (plain.size() > 256) fail(JinjaFault::limit, "a time format of more than 256 bytes");
  char buffer[4096];
  const size_t size = strftime(buffer, sizeof buffer, plain.c_str(), &now);
  return std::string(buffer, size);
}

}  // namespace tern::jinja
