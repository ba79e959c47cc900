#include "formats/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace tern::jinja {

TextObject::TextObject(Meter* meter, MarkedText t, bool is_safe)
    : text(std::move(t)), safe(is_safe), num_chars(count_utf8(text.bytes)), held(meter, 96 + text.heap_bytes()) {}

ListObject::ListObject(Meter* meter, ValueList values)
    : items(std::move(values)), held(meter, 64 + items.capacity() * sizeof(Value)) {
  for (const Value& item : items) depth = std::max(depth, item.depth() + 1);
  if (depth > kJinjaMaxValueDepth)
    fail(JinjaFault::limit, fmt::format("values nested over {} deep", kJinjaMaxValueDepth));
}

const Value* DictObject::find(std::string_view key) const {
  if (!by_text.empty()) {
    const auto found = by_text.find(std::string(key));
    return found == by_text.end() ? nullptr : &items[found->second].second;
  }
  for (const auto& [k, v] : items)
    if (k.is(Kind::text) && k.bytes() == key) return &v;
  return nullptr;
}

const Value* NamespaceObject::find(std::string_view name) const {
  for (const auto& [k, v] : attributes)
    if (k == name) return &v;
  return nullptr;
}

Value Value::real(double d) {
  Value v(Kind::real);
  v.real_ = d;
  return v;
}
const TextObject& Value::text() const { return static_cast<const TextObject&>(*object_); }
const MarkedText& Value::marked() const { return text().text; }
std::string_view Value::bytes() const { return text().text.bytes; }
const ListObject& Value::list() const { return static_cast<const ListObject&>(*object_); }
const DictObject& Value::dict() const { return static_cast<const DictObject&>(*object_); }
const RangeObject& Value::range() const { return static_cast<const RangeObject&>(*object_); }
const ViewObject& Value::view() const { return static_cast<const ViewObject&>(*object_); }
IteratorObject& Value::iterator() const { return static_cast<IteratorObject&>(*object_); }
const MethodObject& Value::method() const { return static_cast<const MethodObject&>(*object_); }
NamespaceObject& Value::name_space() const { return static_cast<NamespaceObject&>(*object_); }
bool Value::safe() const { return kind_ == Kind::text && text().safe; }

// ---- making values

Value Maker::text(MarkedText text, bool safe) const {
  if (meter) {
    meter->check_text(text.size());
    meter->work(text.size() + 32);
  }
  return Value(Kind::text, std::make_shared<TextObject>(meter, std::move(text), safe));
}

Value Maker::list(ValueList items, Kind kind) const {
  if (meter) meter->work(items.size() * 128);
  return Value(kind, std::make_shared<ListObject>(meter, std::move(items)));
}

Value Maker::undefined(std::string message, JinjaFault fault) const {
  auto object = std::make_shared<UndefinedObject>();
  object->message = std::move(message);
  object->fault = fault;
  return Value(Kind::undefined, std::move(object));
}

Value Maker::undefined_name(std::string_view name) const { return undefined(repr_text(name) + " is undefined"); }

Value Maker::no_attribute(const Value& owner, const Value& name) const {
  const std::string shown = to_repr(meter, name).bytes.substr(0, 200);
  if (!name.is(Kind::text)) return undefined(type_label(owner) + " has no element " + shown);
  return undefined(repr_text(type_label(owner)) + " has no attribute " + shown);
}

Value Maker::iterator(std::function<bool(Value&)> next, int depth, std::string type_name) const {
  auto object = std::make_shared<IteratorObject>();
  object->depth = depth + 1;
  if (object->depth > kJinjaMaxValueDepth) fail(JinjaFault::limit, "values nested too deep");
  object->next = std::move(next);
  object->type_name = std::move(type_name);
  return Value(Kind::iterator, std::move(object));
}

Value Maker::method(const Value& self, std::string_view name) const {
  auto object = std::make_shared<MethodObject>();
  object->depth = self.depth() + 1;
  if (object->depth > kJinjaMaxValueDepth) fail(JinjaFault::limit, "values nested too deep");
  object->self = self;
  object->name = name;
  return Value(Kind::method, std::move(object));
}

Maker::~Maker() {
  for (const auto& object : kept) object->drop();  // all are still alive: no chain of destructors
}

namespace {

// Types whose equal values are one key: text, numbers, everything else.
int key_class(const Value& v) { return v.is(Kind::text) ? 0 : v.is_number() ? 1 : 2; }

}  // namespace

void check_hashable(Meter* meter, const Value& v) {
  if (meter) meter->work(8);  // Python hashes it whole
  if (v.is(Kind::list) || v.is(Kind::dict) || v.is(Kind::slice))
    type_error(fmt::format("unhashable type: '{}'", type_name(v)));
  if (v.is(Kind::tuple))
    for (const Value& item : v.list().items) check_hashable(meter, item);
}

const Value* dict_find(Meter* meter, const DictObject& dict, const Value& key) {
  check_hashable(meter, key);
  if (key.is(Kind::text)) {
    if (meter) meter->work(dict.by_text.empty() ? dict.items.size() * 8 + 8 : key.bytes().size() + 64);
    return dict.find(key.bytes());
  }
  if (meter) meter->work(dict.items.size() * 16);
  for (const auto& [k, v] : dict.items)
    if (key_class(k) == key_class(key) && equal(meter, k, key)) return &v;
  return nullptr;
}

void DictBuilder::set(const Value& key, const Value& value) {
  DictObject& dict = *dict_;
  if (const Value* old = dict_find(dict.meter, dict, key)) {
    const_cast<Value&>(*old) = value;  // ours until finish()
  } else {
    if (dict.meter) {
      dict.meter->work(160);
      dict.held.push_back(std::make_unique<Held>(dict.meter, 2 * sizeof(Value) + 160));
    }
    dict.items.emplace_back(key, value);
    constexpr size_t kMany = 16;
    if (dict.items.size() == kMany) {
      for (size_t i = 0; i < kMany; ++i)
        if (dict.items[i].first.is(Kind::text)) dict.by_text.emplace(dict.items[i].first.bytes(), i);
    } else if (dict.items.size() > kMany && key.is(Kind::text)) {
      dict.by_text.emplace(key.bytes(), dict.items.size() - 1);
    }
  }
  dict.depth = std::max({dict.depth, key.depth() + 1, value.depth() + 1});
  if (dict.depth > kJinjaMaxValueDepth)
    fail(JinjaFault::limit, fmt::format("values nested over {} deep", kJinjaMaxValueDepth));
}

Value DictBuilder::finish() { return Value(Kind::dict, std::move(dict_)); }

// ---- Python's manners

bool truth(const Value& v) {
  switch (v.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return v.integer() != 0;
    case Kind::real:
      return v.real() != 0;
    case Kind::text:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view:
      return length(v) != 0;
    default:
      return true;
  }
}

bool identical(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.object() || b.object()) return a.object() == b.object();
  if (a.is(Kind::real)) return a.real() == b.real();
  return a.integer() == b.integer();
}

bool equal(Meter* meter, const Value& a, const Value& b) {
  if (meter) meter->work(8);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.is(Kind::undefined) && b.is(Kind::undefined)) return true;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::none:
      return true;
    case Kind::text:
      if (meter) meter->work(std::min(a.bytes().size(), b.bytes().size()));
      return a.bytes() == b.bytes();
    case Kind::list:
    case Kind::tuple: {
      const ValueList &x = a.list().items, &y = b.list().items;
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (!identical(x[i], y[i]) && !equal(meter, x[i], y[i])) return false;
      return true;
    }
    case Kind::dict: {
      if (a.dict().items.size() != b.dict().items.size()) return false;
      for (const auto& [key, value] : a.dict().items) {
        const Value* other = dict_find(meter, b.dict(), key);
        if (!other || !(identical(value, *other) || equal(meter, value, *other))) return false;
      }
      return true;
    }
    case Kind::range: {
      const RangeObject &x = a.range(), &y = b.range();
      return x.size == y.size && (x.size == 0 || (x.start == y.start && (x.size == 1 || x.step == y.step)));
    }
    case Kind::method:
      return a.method().name == b.method().name && identical(a.method().self, b.method().self);
    default:
      return identical(a, b);
  }
}

int compare(Meter* meter, const Value& a, const Value& b, const char* op) {
  defined(a);
  defined(b);
  if (meter) meter->work(8);
  const auto order = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; };
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return order(a.integer(), b.integer());
    return order(a.real(), b.real());
  }
  if (a.is(Kind::text) && b.is(Kind::text)) {  // bytes of UTF-8 stand in the order of code points
    if (meter) meter->work(std::min(a.bytes().size(), b.bytes().size()));
    return order(a.bytes().compare(b.bytes()), 0);
  }
  if (a.kind() == b.kind() && (a.is(Kind::list) || a.is(Kind::tuple))) {
    const ValueList &x = a.list().items, &y = b.list().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(meter, x[i], y[i])) return compare(meter, x[i], y[i], op);
    return order(x.size(), y.size());
  }
  type_error(fmt::format("'{}' not supported between instances of '{}' and '{}'", op, type_name(a), type_name(b)));
}

void use_undefined(const Value& v) {
  const auto& object = static_cast<const UndefinedObject&>(*v.object());
  fail(object.fault, object.message);
}

std::string_view type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return v.safe() ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view:
      switch (v.view().what) {
        case ViewObject::What::keys:
          return "dict_keys";
        case ViewObject::What::values:
          return "dict_values";
        case ViewObject::What::items:
          return "dict_items";
      }
      break;
    case Kind::iterator:
      return v.iterator().type_name;
    case Kind::method:
      return "builtin_function_or_method";
    case Kind::macro:
      return "Macro";
    case Kind::function:
      return "function";
    case Kind::name_space:
      return "TemplateNamespace";
    case Kind::loop:
      return "LoopContext";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
    case Kind::slice:
      return "slice";
  }
  return "object";
}

std::string type_label(const Value& v) {
  switch (v.kind()) {
    case Kind::none:
      return "None";
    case Kind::name_space:
      return "transformers.utils.chat_template_utils.TemplateNamespace object";
    case Kind::text:
      return v.safe() ? "markupsafe.Markup object" : "str object";
    case Kind::loop:
    case Kind::macro:
    case Kind::undefined:
      return fmt::format("jinja2.runtime.{} object", type_name(v));
    case Kind::cycler:
    case Kind::joiner:
      return fmt::format("jinja2.utils.{} object", type_name(v));
    default:
      return fmt::format("{} object", type_name(v));
  }
}

size_t length(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::text:
      return v.text().num_chars;
    case Kind::list:
    case Kind::tuple:
      return v.list().items.size();
    case Kind::dict:
      return v.dict().items.size();
    case Kind::range:
      return static_cast<size_t>(v.range().size);
    case Kind::view:
      return v.view().dict.dict().items.size();
    default:
      type_error(fmt::format("object of type '{}' has no len()", type_name(v)));
  }
}

bool iterable(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::text:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view:
    case Kind::iterator:
    case Kind::loop:
      return true;
    default:
      return false;
  }
}

Value range_item(const RangeObject& r, Int i) { return Value::integer(r.start + i * r.step); }

std::function<bool(Value&)> walk(const Maker& maker, const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return [](Value&) { return false; };
    case Kind::text:
      return [&maker, v, at = size_t{0}](Value& out) mutable {
        const MarkedText& text = v.marked();
        if (at >= text.size()) return false;
        const size_t size = static_cast<size_t>(decode_utf8(std::string_view(text.bytes).substr(at)).num_bytes);
        out = maker.text(text.slice(at, at + size));  // as Python: characters of a Markup are plain
        at += size;
        return true;
      };
    case Kind::list:
    case Kind::tuple:
      return [v, i = size_t{0}](Value& out) mutable {
        if (i >= v.list().items.size()) return false;
        out = v.list().items[i++];
        return true;
      };
    case Kind::dict:
      return [v, i = size_t{0}](Value& out) mutable {
        if (i >= v.dict().items.size()) return false;
        out = v.dict().items[i++].first;
        return true;
      };
    case Kind::view:
      return [&maker, v, i = size_t{0}](Value& out) mutable {
        const auto& items = v.view().dict.dict().items;
        if (i >= items.size()) return false;
        const auto& [key, value] = items[i++];
        switch (v.view().what) {
          case ViewObject::What::keys:
            out = key;
            break;
          case ViewObject::What::values:
            out = value;
            break;
          case ViewObject::What::items:
            out = maker.list({key, value}, Kind::tuple);
            break;
        }
        return true;
      };
    case Kind::range:
      return [v, i = Int{0}](Value& out) mutable {
        if (i >= v.range().size) return false;
        out = range_item(v.range(), i++);
        return true;
      };
    case Kind::iterator:
      return [v](Value& out) { return v.iterator().next(out); };
    default:
      type_error(fmt::format("'{}' object is not iterable", type_name(v)));
  }
}

ValueList to_list(const Maker& maker, const Value& v) {
  if (v.is(Kind::list) || v.is(Kind::tuple)) {
    if (maker.meter) maker.meter->work(v.list().items.size() * sizeof(Value));
    return v.list().items;
  }
  ValueList items;
  const auto next = walk(maker, v);
  for (Value item; next(item);) {
    if (maker.meter) {
      maker.meter->work(64);
      if (items.size() * sizeof(Value) > static_cast<size_t>(maker.meter->limits().max_memory_bytes))
        fail(JinjaFault::limit, "a list beyond the memory of a template");
    }
    items.push_back(item);
  }
  return items;
}

}  // namespace tern::jinja
