// Methods of Python's text, dict, list and tuple that do not change their owner.
#include <fmt/format.h>

#include <algorithm>

#include "formats/jinja/eval.h"
#include "formats/jinja/format.h"
#include "formats/jinja/text.h"

namespace tern::jinja {
namespace {

using Names = std::vector<std::string_view>;

const Names& text_methods() {
  static const Names names = {
      "capitalize",   "casefold",   "center",     "count",     "endswith", "find",       "format",    "index",
      "isalnum",      "isalpha",    "isascii",    "isdecimal", "isdigit",  "islower",    "isnumeric", "isspace",
      "istitle",      "isupper",    "join",       "ljust",     "lower",    "lstrip",     "partition", "removeprefix",
      "removesuffix", "replace",    "rfind",      "rindex",    "rjust",    "rpartition", "rsplit",    "rstrip",
      "split",        "splitlines", "startswith", "strip",     "swapcase", "title",      "upper",     "zfill"};
  return names;
}
const Names& foreign_text() {
  static const Names names = {"encode",      "expandtabs", "format_map", "isidentifier",
                              "isprintable", "maketrans",  "translate"};
  return names;
}
const Names& dict_methods() {
  static const Names names = {"copy", "get", "items", "keys", "values"};
  return names;
}
const Names& dict_changes() {
  static const Names names = {"clear", "pop", "popitem", "setdefault", "update"};
  return names;
}
const Names& list_changes() {
  static const Names names = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  return names;
}

bool in(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const std::string* chars_of(const Value& v, std::string& storage, const char* callee) {
  if (v.is(Kind::missing) || v.is(Kind::none)) return nullptr;
  defined(v);
  if (!v.is(Kind::text)) type_error(fmt::format("{} arg must be None or str", callee));
  storage = v.bytes();
  return &storage;
}

std::string_view want_text(const Value& v, std::string_view callee) {
  defined(v);
  if (!v.is(Kind::text)) type_error(fmt::format("{}() argument must be str, not {}", callee, type_name(v)));
  return v.bytes();
}

int64_t want_count(const Value& v, int64_t otherwise) {
  if (v.is(Kind::missing)) return otherwise;
  defined(v);
  if (!v.is_integral()) type_error(fmt::format("'{}' object cannot be interpreted as an integer", type_name(v)));
  return static_cast<int64_t>(std::clamp<Int>(v.integer(), -1, int64_t{1} << 40));
}

class TextMethod {
 public:
  TextMethod(Evaluator& ev, const Value& self, std::string_view name, const CallArguments& a)
      : ev_(ev), self_(self), text_(self.marked()), name_(name), a_(a) {}

  Value run() {
    ev_.meter.work(text_.size());
    if (name_ == "upper") return none_then(upper(text_));
    if (name_ == "lower" || name_ == "casefold") return none_then(lower(text_));
    if (name_ == "capitalize") return none_then(capitalize(text_));
    if (name_ == "title") return none_then(title_words(text_));
    if (name_ == "swapcase") return none_then(swap_case(text_));
    if (name_.starts_with("is")) {
      const Signature s(name_, "", a_);
      return Value::boolean(text_is(std::string(name_), text_.bytes));
    }
    if (name_ == "strip" || name_ == "lstrip" || name_ == "rstrip") {
      const Signature s(name_, "chars?", a_);
      std::string storage;
      return make(strip(text_, chars_of(s[0], storage, name_.data()), name_ != "rstrip", name_ != "lstrip"));
    }
    if (name_ == "split" || name_ == "rsplit") return split();
    if (name_ == "splitlines") {
      const Signature s(name_, "keepends?", a_);
      return parts(split_lines(&ev_.meter, text_, s.given(0) && truth(s[0])));
    }
    if (name_ == "partition" || name_ == "rpartition") return partition();
    if (name_ == "replace") {
      const Signature s(name_, "old new count?", a_);
      want_text(s[1], "replace");
      const MarkedText to = self_.safe() && !s[1].safe() ? escape_html(s[1].marked()) : s[1].marked();
      return make(replace(&ev_.meter, text_, want_text(s[0], "replace"), to, want_count(s[2], -1)));
    }
    if (name_ == "startswith" || name_ == "endswith") return starts_or_ends();
    if (name_ == "find" || name_ == "rfind" || name_ == "index" || name_ == "rindex" || name_ == "count") return find();
    if (name_ == "join") return join();
    if (name_ == "removeprefix" || name_ == "removesuffix") {
      const Signature s(name_, "affix", a_);
      const std::string_view affix = want_text(s[0], name_), bytes = text_.bytes;
      if (name_ == "removeprefix" && bytes.starts_with(affix)) return make(text_.slice(affix.size(), text_.size()));
      if (name_ == "removesuffix" && bytes.ends_with(affix)) return make(text_.slice(0, text_.size() - affix.size()));
      return self_;
    }
    if (name_ == "zfill" || name_ == "ljust" || name_ == "rjust" || name_ == "center") return pad();
    if (name_ == "format") return make(brace_format(ev_, text_, a_));
    fail(JinjaFault::unsupported, fmt::format("Python's method 'str.{}'", name_));
  }

 private:
  Value make(MarkedText t) { return ev_.text(std::move(t), self_.safe()); }
  Value none_then(MarkedText t) {
    const Signature s(name_, "", a_);
    return make(std::move(t));
  }
  Value parts(std::vector<MarkedText> texts, Kind kind = Kind::list) {
    ValueList items;
    for (MarkedText& t : texts) items.push_back(make(std::move(t)));
    return ev_.maker.list(std::move(items), kind);
  }

  Value split() {
    const Signature s(name_, "sep? maxsplit?", a_);
    const int64_t count = want_count(s[1], -1);
    const bool right = name_ == "rsplit";
    if (!s.given(0) || s[0].is(Kind::none)) return parts(split_space(&ev_.meter, text_, count, right));
    defined(s[0]);
    if (!s[0].is(Kind::text)) type_error(fmt::format("must be str or None, not {}", type_name(s[0])));
    return parts(split_at(&ev_.meter, text_, s[0].bytes(), count, right));
  }

  Value partition() {
    const Signature s(name_, "sep", a_);
    const std::string_view sep = want_text(s[0], name_);
    if (sep.empty()) type_error("empty separator");
    const bool right = name_ == "rpartition";
    const size_t at = right ? find_text_last(text_.bytes, sep) : find_text(text_.bytes, sep);
    if (at == std::string_view::npos)
      return right ? parts({{}, {}, text_}, Kind::tuple) : parts({text_, {}, {}}, Kind::tuple);
    return parts({text_.slice(0, at), text_.slice(at, at + sep.size()), text_.slice(at + sep.size(), text_.size())},
                 Kind::tuple);
  }

  // The part [start, end) of the text that optional arguments name, as byte offsets.
  TextSpan window(const Value& start, const Value& end) const {
    SliceObject slice;
    slice.start = start.is(Kind::missing) ? Value::none() : start;
    slice.stop = end.is(Kind::missing) ? Value::none() : end;
    slice.step = Value::none();
    const TextObject& t = self_.text();
    const Slice part = resolve_slice(slice, t.num_chars);
    const size_t begin = byte_offset(t, part.begin);
    return {begin, byte_offset(t, part.begin + part.count)};
  }

  Value starts_or_ends() {
    const Signature s(name_, "affix start? end?", a_);
    defined(s[0]);
    const TextSpan w = window(s[1], s[2]);
    const std::string_view part = std::string_view(text_.bytes).substr(w.begin, w.end - w.begin);
    const auto holds = [&](const Value& affix) {
      if (!affix.is(Kind::text))
        type_error(fmt::format("{} first arg must be str or a tuple of str, not {}", name_, type_name(affix)));
      return name_ == "startswith" ? part.starts_with(affix.bytes()) : part.ends_with(affix.bytes());
    };
    if (!s[0].is(Kind::tuple)) return Value::boolean(holds(s[0]));
    for (const Value& affix : s[0].list().items)
      if (holds(affix)) return Value::boolean(true);
    return Value::boolean(false);
  }

  Value find() {
    const Signature s(name_, "sub start? end?", a_);
    const std::string_view sub = want_text(s[0], name_);
    const TextSpan w = window(s[1], s[2]);
    const std::string_view part = std::string_view(text_.bytes).substr(w.begin, w.end - w.begin);
    if (name_ == "count") {
      if (sub.empty()) return Value::integer(static_cast<Int>(count_chars(part)) + 1);
      Int n = 0;
      for (size_t at = find_text(part, sub); at != std::string_view::npos; at = find_text(part, sub, at + sub.size()))
        ++n;
      return Value::integer(n);
    }
    const size_t at = name_.starts_with('r') ? find_text_last(part, sub) : find_text(part, sub);
    if (at == std::string_view::npos) {
      if (name_.ends_with("index")) type_error("substring not found");
      return Value::integer(-1);
    }
    return Value::integer(static_cast<Int>(char_offset(self_.text(), w.begin + at)));
  }

  static size_t count_chars(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  }

  Value join() {
    const Signature s(name_, "iterable", a_);
    MarkedText out;
    size_t i = 0;
    for (const Value& v : to_list(ev_.maker, s[0])) {
      defined(v);
      if (!v.is(Kind::text))
        type_error(fmt::format("sequence item {}: expected str instance, {} found", i, type_name(v)));
      if (i++ > 0) out.append(text_);
      out.append(self_.safe() && !v.safe() ? escape_html(v.marked()) : v.marked());
      ev_.meter.check_text(out.size());
    }
    return make(std::move(out));
  }

  Value pad() {
    const Signature s(name_, name_ == "zfill" ? "width" : "width fillchar?", a_);
    const int64_t width = want_count(s[0], 0);
    const auto size = static_cast<int64_t>(self_.text().num_chars);
    std::string fill = name_ == "zfill" ? "0" : " ";
    if (name_ != "zfill" && s.given(1)) fill = want_text(s[1], name_);
    if (count_chars(fill) != 1) type_error("The fill character must be exactly one character long");
    if (width <= size) return self_;
    const auto missing = static_cast<size_t>(width - size);
    ev_.meter.check_text(text_.size() + missing * fill.size());
    const auto filled = [&](size_t n) {
      std::string all;
      for (size_t i = 0; i < n; ++i) all += fill;
      return all;
    };
    // Python's center: an odd remainder goes left if the width is odd too
    const size_t left = name_ == "ljust"    ? 0
                        : name_ == "center" ? missing / 2 + (missing & static_cast<size_t>(width) & 1)
                                            : missing;
    MarkedText out;
    const bool sign = name_ == "zfill" && (text_.bytes.starts_with('+') || text_.bytes.starts_with('-'));
    if (sign) out.append(text_, 0, 1);
    out.append(filled(left));
    out.append(text_, sign ? 1 : 0, text_.size());
    out.append(filled(missing - left));
    return make(std::move(out));
  }

  Evaluator& ev_;
  const Value& self_;
  const MarkedText& text_;
  std::string_view name_;
  const CallArguments& a_;
};

Value dict_method(Evaluator& ev, const Value& self, std::string_view name, const CallArguments& a) {
  if (name == "get") {
    if (!a.keywords.empty()) type_error("dict.get() takes no keyword arguments");
    const Signature s(name, "key default?", a);
    if (const Value* found = dict_find(&ev.meter, self.dict(), s[0])) return *found;
    return s.given(1) ? s[1] : Value::none();
  }
  const Signature s(name, "", a);
  if (name == "copy") return self;
  auto view = std::make_shared<ViewObject>();
  view->dict = self;
  view->depth = self.depth() + 1;
  if (view->depth > kJinjaMaxValueDepth) fail(JinjaFault::limit, "values nested too deep");
  view->what = name == "keys"     ? ViewObject::What::keys
               : name == "values" ? ViewObject::What::values
                                  : ViewObject::What::items;
  return Value(Kind::view, std::move(view));
}

Value list_method(Evaluator& ev, const Value& self, std::string_view name, const CallArguments& a) {
  if (name == "copy") return self;
  const Signature s(name, "value", a);
  Int n = 0;
  const ValueList& items = self.list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!identical(items[i], s[0]) && !equal(&ev.meter, items[i], s[0])) continue;
    if (name == "index") return Value::integer(static_cast<Int>(i));
    ++n;
  }
  if (name == "index") type_error("value is not in list");
  return Value::integer(n);
}

// A range has each of its numbers once; what is no number is looked for among them too.
Value range_method(Evaluator& ev, const Value& self, std::string_view name, const CallArguments& a) {
  const Signature s(name, "value", a);
  const RangeObject& range = self.range();
  for (Int i = 0; i < range.size; ++i)
    if (equal(&ev.meter, range_item(range, i), s[0])) return Value::integer(name == "index" ? i : Int{1});
  if (name == "index") type_error("value is not in range");
  return Value::integer(0);
}

}  // namespace

Attribute find_attribute(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::text:
      if (in(text_methods(), name)) return Attribute::method;
      return in(foreign_text(), name) ? Attribute::unsupported : Attribute::none;
    case Kind::dict:
      if (in(dict_methods(), name)) return Attribute::method;
      if (in(dict_changes(), name)) return Attribute::forbidden;
      return name == "fromkeys" ? Attribute::unsupported : Attribute::none;
    case Kind::list:
      if (in(list_changes(), name)) return Attribute::forbidden;
      return name == "count" || name == "index" || name == "copy" ? Attribute::method : Attribute::none;
    case Kind::tuple:
    case Kind::range:
      return name == "count" || name == "index" ? Attribute::method : Attribute::none;
    default:
      return Attribute::none;
  }
}

bool is_foreign_method(std::string_view name) { return in(foreign_text(), name) || name == "fromkeys"; }

Value call_method(Evaluator& ev, const MethodObject& method, const CallArguments& arguments) {
  const Value& self = method.self;
  switch (self.kind()) {
    case Kind::text:
      return TextMethod(ev, self, method.name, arguments).run();
    case Kind::dict:
      return dict_method(ev, self, method.name, arguments);
    case Kind::list:
    case Kind::tuple:
      return list_method(ev, self, method.name, arguments);
    case Kind::range:
      return range_method(ev, self, method.name, arguments);
    case Kind::loop: {
      auto& loop = static_cast<LoopObject&>(*self.object());
      if (method.name == "cycle") {
        if (arguments.positional.empty()) type_error("no items for cycling given");
        return arguments.positional[static_cast<size_t>(loop.index0 % static_cast<Int>(arguments.positional.size()))];
      }
      const Value now = ev.maker.list(arguments.positional, Kind::tuple);
      if (!loop.last_changed.is(Kind::missing) && equal(&ev.meter, loop.last_changed, now))
        return Value::boolean(false);
      loop.last_changed = now;
      return Value::boolean(true);
    }
    case Kind::cycler: {
      auto& cycler = static_cast<CyclerObject&>(*self.object());
      const Signature none(method.name, "", arguments);
      if (method.name == "reset") {
        cycler.at = 0;
        return Value::none();
      }
      const Value v = cycler.items[cycler.at];
      cycler.at = (cycler.at + 1) % cycler.items.size();
      return v;
    }
    default:
      fail(JinjaFault::unsupported, fmt::format("the method '{}' of {}", method.name, type_name(self)));
  }
}

}  // namespace tern::jinja
