#pragma once
// Values of a template, with Python's rules: truth, equality, order, str(), repr(). Everything is immutable except
// namespaces, iterators and the helpers that Jinja itself makes (loop, cycler, joiner).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "formats/jinja/marked_text.h"
#include "formats/jinja/meter.h"

namespace tern::jinja {

using Int = __int128;

/// Types of values.
enum class Kind : uint8_t {
  missing,  // a variable never set: not a value
  undefined,
  none,
  boolean,
  integer,
  real,
  text,
  list,
  tuple,
  dict,
  range,
  view,      // of a dict: keys(), values(), items()
  iterator,  // what generators give: can be walked once
  method,    // of a value: "x".strip
  macro,
  function,
  name_space,
  loop,
  cycler,
  joiner,
  slice,  // only inside []
};

/// What a value holds that is no number. Objects are shared.
struct Object {
  virtual ~Object() = default;
  virtual void drop() {}  // releases everything it holds: the end of a rendering breaks reference cycles
  int depth = 0;          // of nesting, bounded: destructors recurse
};
struct TextObject;
struct ListObject;
struct DictObject;
struct RangeObject;
struct ViewObject;
struct IteratorObject;
struct MethodObject;
struct UndefinedObject;
struct NamespaceObject;

/// A value. An accessor of a type may be called only for a value of that type.
class Value {
 public:
  Value() = default;  // missing
  static Value none() { return Value(Kind::none); }
  static Value boolean(bool b) { return Value(Kind::boolean, b ? 1 : 0); }
  static Value integer(Int i) { return Value(Kind::integer, i); }
  static Value real(double d);
  Value(Kind kind, std::shared_ptr<Object> object) : object_(std::move(object)), kind_(kind) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const { return kind_ == Kind::boolean || kind_ == Kind::integer || kind_ == Kind::real; }
  bool is_integral() const { return kind_ == Kind::boolean || kind_ == Kind::integer; }
  bool flag() const { return integer_ != 0; }
  Int integer() const { return integer_; }
  double real() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const TextObject& text() const;
  const MarkedText& marked() const;
  std::string_view bytes() const;
  const ListObject& list() const;  // list, tuple
  const DictObject& dict() const;
  const RangeObject& range() const;
  const ViewObject& view() const;
  IteratorObject& iterator() const;
  const MethodObject& method() const;
  NamespaceObject& name_space() const;
  Object* object() const { return object_.get(); }
  const std::shared_ptr<Object>& shared() const { return object_; }
  int depth() const { return object_ ? object_->depth : 0; }
  bool safe() const;  // text that is Markup

 private:
  explicit Value(Kind kind, Int i = 0) : integer_(i), kind_(kind) {}
  union {
    Int integer_ = 0;
    double real_;
  };
  std::shared_ptr<Object> object_;
  Kind kind_ = Kind::missing;
};

using ValueList = std::vector<Value>;

/// A str. num_chars: its length in code points.
struct TextObject : Object {
  MarkedText text;
  bool safe = false;
  size_t num_chars = 0;
  bool ascii() const { return num_chars == text.size(); }
  Held held;
  TextObject(Meter* meter, MarkedText t, bool is_safe);
};
/// A list or tuple.
struct ListObject : Object {
  ValueList items;
  Held held;
  ListObject(Meter* meter, ValueList values);
};
/// A dict.
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> items;       // in order of insertion
  std::unordered_map<std::string, size_t> by_text;  // positions of text keys, once there are many
  std::vector<std::unique_ptr<Held>> held;
  Meter* meter = nullptr;
  explicit DictObject(Meter* m) : meter(m) {}
  const Value* find(std::string_view key) const;
};
/// range(): start, start + step, …, `size` items.
struct RangeObject : Object {
  Int start = 0, step = 1, size = 0;
};
/// keys(), values() or items() of a dict.
struct ViewObject : Object {
  Value dict;
  enum class What { keys, values, items } what = What::keys;
};
/// An iterator.
struct IteratorObject : Object {
  std::function<bool(Value&)> next;  // false: exhausted
  std::string type_name = "generator";
};
/// A method of the value `self`.
struct MethodObject : Object {
  Value self;
  std::string name;
};
/// An undefined value: using it fails with this message.
struct UndefinedObject : Object {
  std::string message;
  JinjaFault fault = JinjaFault::undefined;
};
/// namespace(): the one object whose attributes templates set.
struct NamespaceObject : Object {
  std::vector<std::pair<std::string, Value>> attributes;
  std::unique_ptr<Held> held;
  const Value* find(std::string_view name) const;
  void drop() override { attributes.clear(); }
};

/// Makes values and counts their memory. There is one for each rendering; `meter` is null while a template loads.
struct Maker {
  Meter* meter = nullptr;
  std::vector<std::shared_ptr<Object>> kept;  // objects that may hold themselves: emptied at the end

  Value text(MarkedText text, bool safe = false) const;
  Value text(std::string_view text) const { return this->text(MarkedText(std::string(text))); }
  Value list(ValueList items, Kind kind = Kind::list) const;
  Value undefined(std::string message, JinjaFault fault = JinjaFault::undefined) const;
  Value undefined_name(std::string_view name) const;
  Value no_attribute(const Value& owner, const Value& name) const;
  Value iterator(std::function<bool(Value&)> next, int depth, std::string type_name = "generator") const;
  Value method(const Value& self, std::string_view name) const;
  Value json(const Json& json, uint8_t marks) const;
  ~Maker();
};

/// Builds a dict; a key that is set again keeps its place. Errors: unhashable keys.
class DictBuilder {
 public:
  explicit DictBuilder(Meter* meter) : dict_(std::make_shared<DictObject>(meter)) {}
  void set(const Value& key, const Value& value);
  size_t size() const { return dict_->items.size(); }
  Value finish();

 private:
  std::shared_ptr<DictObject> dict_;
};

/// Python's bool(v), and a == b.
bool truth(const Value& v);
bool equal(Meter* meter, const Value& a, const Value& b);
/// -1, 0, 1, or 2 (not comparable: NaN). Errors: types without an order; `op` for the message.
int compare(Meter* meter, const Value& a, const Value& b, const char* op);
bool identical(const Value& a, const Value& b);
/// The value of a key; null: none. Errors: unhashable key.
const Value* dict_find(Meter* meter, const DictObject& dict, const Value& key);
void check_hashable(Meter* meter, const Value& v);

MarkedText to_text(Meter* meter, const Value& v);  // Python's str()
MarkedText to_repr(Meter* meter, const Value& v);  // Python's repr()
/// repr() of a str; str() of a float and of an int.
std::string repr_text(std::string_view text);
std::string real_text(double d);
std::string int_text(Int i);
std::string_view type_name(const Value& v);  // "str", "NoneType", …
std::string type_label(const Value& v);      // as Undefined's messages name it: "dict object", "None"

/// Length in items. Errors: types without one.
size_t length(const Value& v);
/// A function that gives the next item, false at the end. A string gives characters, a dict its keys. Errors: a type
/// without items.
std::function<bool(Value&)> walk(const Maker& maker, const Value& v);
ValueList to_list(const Maker& maker, const Value& v);
bool iterable(const Value& v);
Value range_item(const RangeObject& r, Int i);

[[noreturn]] void use_undefined(const Value& v);  // throws the failure that an undefined value stands for
/// Fails if `v` is undefined.
inline void defined(const Value& v) {
  if (v.is(Kind::undefined)) use_undefined(v);
}

}  // namespace tern::jinja
