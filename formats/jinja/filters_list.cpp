// Filters on sequences. Lazy where Jinja2's are generators: an error waits until the items are asked for.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "formats/jinja/filters.h"
#include "formats/jinja/text.h"

namespace tern::jinja {
namespace {

// "a.b.0" of an item, by [] as Jinja2 does; an integer or nothing also will do.
class Getter {
 public:
  Getter(Evaluator& ev, const Value& attribute) {
    if (attribute.is(Kind::missing) || attribute.is(Kind::none)) return;
    if (!attribute.is(Kind::text)) {
      parts_.push_back(attribute);
      return;
    }
    for (const std::string_view part : split(attribute.bytes(), '.')) {
      const bool digits = !part.empty() && part.size() < 19 &&
                          std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
      parts_.push_back(digits ? Value::integer(std::stoll(std::string(part))) : ev.maker.text(part));
    }
  }
  Value operator()(Evaluator& ev, Value item, const Value* otherwise = nullptr) const {
    for (const Value& part : parts_) {
      item = ev.item(item, part);
      if (otherwise && item.is(Kind::undefined)) item = *otherwise;
    }
    return item;
  }

 private:
  ValueList parts_;
};

Value without_case(Evaluator& ev, const Value& v) {
  return v.is(Kind::text) ? ev.text(lower(v.marked()), v.safe()) : v;
}

// The items of v once somebody asks: what has none fails then, not before.
std::function<bool(Value&)> later(const Maker& maker, const Value& v) {
  return [&maker, v, next = std::function<bool(Value&)>()](Value& out) mutable {
    if (!next) next = walk(maker, v);
    return next(out);
  };
}
const auto kNothing = [](Value&) { return false; };

bool flag(const Signature& s, size_t i) { return s.given(i) && truth(s[i]); }

void sort_by(Evaluator& ev, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  ev.meter.work(keyed.size() * 64);
  // Python's reverse keeps equal items in their order
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return (reverse ? compare(&ev.meter, b.first, a.first, "<") : compare(&ev.meter, a.first, b.first, "<")) == -1;
  });
}

Value select_where(Evaluator& ev, const Value& v, const CallArguments& a, bool wanted, bool by_attribute) {
  if (!truth(v)) return ev.maker.iterator(kNothing, 0);
  CallArguments rest = a;
  Value attribute;
  if (by_attribute) {
    if (rest.positional.empty()) fail(JinjaFault::runtime, "Missing parameter for attribute name");
    attribute = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
  }
  std::string test;
  if (!rest.positional.empty()) {
    const Value& name = rest.positional.front();
    if (!name.is(Kind::text)) fail(JinjaFault::runtime, "No test named " + to_repr(&ev.meter, name).bytes + ".");
    test = name.bytes();
    rest.positional.erase(rest.positional.begin());
  }
  int depth = v.depth() + 1;
  for (const Value& extra : rest.positional) depth = std::max(depth, extra.depth() + 1);
  return ev.maker.iterator(
      [&ev, next = later(ev.maker, v), getter = Getter(ev, attribute), test, rest, wanted](Value& out) {
        while (next(out)) {
          ev.meter.step();
          const Value subject = getter(ev, out);
          if ((test.empty() ? truth(subject) : ev.apply_test(test, subject, rest)) == wanted) return true;
        }
        return false;
      },
      depth);
}

Value extreme(Evaluator& ev, const Value& v, const CallArguments& a, bool largest) {
  const Signature s(largest ? "max" : "min", "case_sensitive? attribute?", a);
  const Getter getter(ev, s[1]);
  const auto next = later(ev.maker, v);
  Value best, best_key;
  for (Value item; next(item);) {
    Value key = getter(ev, item);
    if (!flag(s, 0)) key = without_case(ev, key);
    if (!best.is(Kind::missing) && compare(&ev.meter, key, best_key, largest ? ">" : "<") != (largest ? 1 : -1))
      continue;
    best = item;
    best_key = key;
  }
  return best.is(Kind::missing) ? ev.maker.undefined("No aggregated item, sequence was empty.") : best;
}

}  // namespace

namespace filters {

Value batch(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("batch", "linecount fill_with?", a);
  defined(s[0]);
  if (!s[0].is_integral()) type_error("batch: an integer is needed");
  const Int size = s[0].integer();
  if (size > 100'000) fail(JinjaFault::limit, "batch: rows of more than 100000");
  const Value fill = s.given(1) && !s[1].is(Kind::none) ? s[1] : Value();
  return ev.maker.iterator(
      [&ev, next = later(ev.maker, v), size, fill, ahead = Value()](Value& out) mutable {
        ValueList row;
        if (!ahead.is(Kind::missing)) row.push_back(std::exchange(ahead, Value()));
        for (Value item; next(item);) {
          ev.meter.work(64);
          if (static_cast<Int>(row.size()) == size) {  // an empty first row, if size is 0
            ahead = item;
            out = ev.maker.list(std::move(row));
            return true;
          }
          row.push_back(item);
        }
        if (row.empty()) return false;
        if (!fill.is(Kind::missing))
          while (static_cast<Int>(row.size()) < size) row.push_back(fill);
        out = ev.maker.list(std::move(row));
        return true;
      },
      std::max(v.depth(), fill.depth()) + 1);
}

Value dictsort(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("dictsort", "case_sensitive? by? reverse?", a);
  defined(v);
  if (!v.is(Kind::dict)) type_error(fmt::format("'{}' object has no attribute 'items'", type_name(v)));
  const std::string_view by = s.given(1) && s[1].is(Kind::text) ? s[1].bytes() : "key";
  if (by != "key" && by != "value") fail(JinjaFault::runtime, "You can only sort by either \"key\" or \"value\"");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : v.dict().items) {
    const Value& sort_key = by == "key" ? key : value;
    keyed.emplace_back(flag(s, 0) ? sort_key : without_case(ev, sort_key), ev.maker.list({key, value}, Kind::tuple));
  }
  sort_by(ev, keyed, flag(s, 2));
  ValueList out;
  for (auto& [key, pair] : keyed) out.push_back(pair);
  return ev.maker.list(std::move(out));
}

Value first(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("first", "", a);
  Value out;
  if (walk(ev.maker, v)(out)) return out;
  return ev.maker.undefined("No first item, sequence was empty.");
}

Value last(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("last", "", a);
  if (v.is(Kind::iterator) || !iterable(v)) type_error(fmt::format("'{}' object is not reversible", type_name(v)));
  const size_t size = jinja::length(v);
  if (size == 0) return ev.maker.undefined("No last item, sequence was empty.");
  if (v.is(Kind::list) || v.is(Kind::tuple)) return v.list().items.back();
  return v.is(Kind::dict) || v.is(Kind::view) ? to_list(ev.maker, v).back() : ev.item(v, Value::integer(-1));
}

Value join(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("join", "d? attribute?", a);
  const MarkedText separator = s.given(0) ? soft_text(ev, s[0]) : MarkedText();
  const Getter getter(ev, s[1]);
  const auto next = later(ev.maker, v);
  MarkedText out;
  bool begun = false;
  for (Value item; next(item);) {
    if (begun) out.append(separator);
    begun = true;
    out.append(soft_text(ev, getter(ev, item)));
    ev.meter.check_text(out.size());
    ev.meter.work(64);
  }
  return ev.text(std::move(out));
}

Value length(Evaluator&, const Value& v, const CallArguments& a) {
  const Signature s("length", "", a);
  return Value::integer(static_cast<Int>(jinja::length(v)));
}

Value list(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("list", "", a);
  return ev.maker.list(to_list(ev.maker, v));
}

Value map(Evaluator& ev, const Value& v, const CallArguments& a) {
  if (!truth(v)) return ev.maker.iterator(kNothing, 0);
  if (a.positional.empty()) {
    const Signature s("map", "attribute default?", a);
    return ev.maker.iterator(
        [&ev, next = later(ev.maker, v), getter = Getter(ev, s[0]),
         otherwise = s.given(1) && !s[1].is(Kind::none) ? s[1] : Value()](Value& out) {
          if (!next(out)) return false;
          ev.meter.step();
          out = getter(ev, out, otherwise.is(Kind::missing) ? nullptr : &otherwise);
          return true;
        },
        v.depth() + 1);
  }
  CallArguments rest = a;
  const Value name = rest.positional.front();
  rest.positional.erase(rest.positional.begin());
  int depth = v.depth() + 1;
  for (const Value& extra : rest.positional) depth = std::max(depth, extra.depth() + 1);
  if (!name.is(Kind::text)) fail(JinjaFault::runtime, "map requires a filter argument");
  return ev.maker.iterator(
      [&ev, next = later(ev.maker, v), name, rest](Value& out) {
        if (!next(out)) return false;
        out = ev.apply_filter(name.bytes(), out, rest);
        return true;
      },
      depth);
}

Value max(Evaluator& ev, const Value& v, const CallArguments& a) { return extreme(ev, v, a, true); }
Value min(Evaluator& ev, const Value& v, const CallArguments& a) { return extreme(ev, v, a, false); }
Value select(Evaluator& ev, const Value& v, const CallArguments& a) { return select_where(ev, v, a, true, false); }
Value reject(Evaluator& ev, const Value& v, const CallArguments& a) { return select_where(ev, v, a, false, false); }
Value selectattr(Evaluator& ev, const Value& v, const CallArguments& a) { return select_where(ev, v, a, true, true); }
Value rejectattr(Evaluator& ev, const Value& v, const CallArguments& a) { return select_where(ev, v, a, false, true); }

// What Python calls that which goes backwards.
std::string reversed_type(const Value& v) {
  if (v.is(Kind::tuple)) return "reversed";
  if (v.is(Kind::range)) return "range_iterator";
  const bool is_view = v.is(Kind::view);
  if (is_view && v.view().what == ViewObject::What::values) return "dict_reversevalueiterator";
  if (is_view && v.view().what == ViewObject::What::items) return "dict_reverseitemiterator";
  return is_view || v.is(Kind::dict) ? "dict_reversekeyiterator" : "list_reverseiterator";
}

Value reverse(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("reverse", "", a);
  if (v.is(Kind::text)) {
    auto backwards = std::make_shared<SliceObject>();
    backwards->start = backwards->stop = Value::none();
    backwards->step = Value::integer(-1);
    return ev.item(v, Value(Kind::slice, backwards));
  }
  if (!iterable(v)) fail(JinjaFault::runtime, "argument must be iterable");
  ValueList items = to_list(ev.maker, v);
  std::reverse(items.begin(), items.end());
  const Value all = ev.maker.list(std::move(items));
  if (v.is(Kind::iterator) || v.is(Kind::undefined)) return all;
  return ev.maker.iterator(walk(ev.maker, all), all.depth(), reversed_type(v));
}

Value sort(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("sort", "reverse? case_sensitive? attribute?", a);
  std::vector<Getter> getters;
  if (s.given(2) && s[2].is(Kind::text)) {
    for (const std::string_view part : split(s[2].bytes(), ',')) getters.emplace_back(ev, ev.maker.text(part));
  } else {
    getters.emplace_back(ev, s[2]);
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : to_list(ev.maker, v)) {
    ValueList key;
    for (const Getter& getter : getters) {
      const Value part = getter(ev, item);
      key.push_back(flag(s, 1) ? part : without_case(ev, part));
    }
    keyed.emplace_back(ev.maker.list(std::move(key)), item);
  }
  sort_by(ev, keyed, flag(s, 0));
  ValueList out;
  for (auto& [key, item] : keyed) out.push_back(item);
  return ev.maker.list(std::move(out));
}

Value sum(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("sum", "attribute? start?", a);
  const Getter getter(ev, s[0]);
  Value total = s.given(1) ? s[1] : Value::integer(0);
  if (total.is(Kind::text)) type_error("sum() can't sum strings [use ''.join(seq) instead]");
  const auto next = later(ev.maker, v);
  for (Value item; next(item);) {
    ev.meter.step();
    total = binary(ev, Op::add, total, getter(ev, item));
  }
  return total;
}

Value unique(Evaluator& ev, const Value& v, const CallArguments& a) {
  const Signature s("unique", "case_sensitive? attribute?", a);
  const bool keep_case = flag(s, 0);
  return ev.maker.iterator(
      [&ev, next = later(ev.maker, v), getter = Getter(ev, s[1]), keep_case,
       seen = std::make_shared<DictBuilder>(&ev.meter)](Value& out) {
        while (next(out)) {
          const Value key = keep_case ? getter(ev, out) : without_case(ev, getter(ev, out));
          const size_t before = seen->size();
          seen->set(key, Value::none());
          if (seen->size() > before) return true;
        }
        return false;
      },
      v.depth() + 1);
}

}  // namespace filters
}  // namespace tern::jinja
