// JSON into values, and values into JSON as Python's json.dumps writes it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "formats/jinja/format.h"
#include "formats/jinja/jinja_impl.h"

namespace tern::jinja {

Value Maker::json(const Json& j, uint8_t marks) const {
  switch (j.type()) {
    case Json::value_t::boolean:
      return Value::boolean(j.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(j.get<int64_t>());
    case Json::value_t::number_unsigned:
      return Value::integer(static_cast<Int>(j.get<uint64_t>()));
    case Json::value_t::number_float:
      return Value::real(j.get<double>());
    case Json::value_t::string:
      return text(MarkedText(make_valid_utf8(j.get_ref<const std::string&>()), marks));
    case Json::value_t::array: {
      ValueList items;
      items.reserve(j.size());
      for (const Json& item : j) items.push_back(json(item, marks));
      return list(std::move(items));
    }
    case Json::value_t::object: {
      DictBuilder dict(meter);
      for (const auto& [key, value] : j.items())
        dict.set(text(MarkedText(make_valid_utf8(key), marks)), json(value, marks));
      return dict.finish();
    }
    default:
      return Value::none();
  }
}

namespace {

class Writer {
 public:
  Writer(Meter* meter, const JsonStyle& style) : meter_(meter), style_(style) {}
  MarkedText take() { return std::move(out_); }

  void write(const Value& v, int level) {
    if (meter_) {
      meter_->check_text(out_.size());
      meter_->work(16);
      meter_->enter();
    }
    switch (v.kind()) {
      case Kind::none:
        out_.append("null");
        break;
      case Kind::boolean:
        out_.append(v.flag() ? "true" : "false");
        break;
      case Kind::integer:
        out_.append(int_text(v.integer()));
        break;
      case Kind::real:
        out_.append(number(v.real()));
        break;
      case Kind::text:
        quote(v.marked());
        break;
      case Kind::list:
      case Kind::tuple:
        array(v.list().items, level);
        break;
      case Kind::dict:
        object(v.dict(), level);
        break;
      default:
        type_error(fmt::format("Object of type {} is not JSON serializable", type_name(v)));
    }
    if (meter_) meter_->leave();
  }

 private:
  static std::string number(double d) {
    if (d != d) return "NaN";
    if (d - d != 0) return d > 0 ? "Infinity" : "-Infinity";
    return real_text(d);
  }

  void newline(int level) {
    if (!style_.indent) return;
    out_.append("\n");
    for (int i = 0; i < level; ++i) out_.append(*style_.indent);
    if (meter_) meter_->check_text(out_.size());
  }

  void array(const ValueList& items, int level) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      newline(level + 1);
      write(items[i], level + 1);
    }
    newline(level);
    out_.append("]");
  }

  void object(const DictObject& dict, int level) {
    if (dict.items.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys)
      std::stable_sort(items.begin(), items.end(),
                       [&](auto* a, auto* b) { return compare(meter_, a->first, b->first, "<") < 0; });
    out_.append("{");
    bool first = true;
    for (const auto* item : items) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      newline(level + 1);
      key(item->first);
      out_.append(style_.key_separator);
      write(item->second, level + 1);
    }
    newline(level);
    out_.append("}");
  }

  void key(const Value& key) {
    switch (key.kind()) {
      case Kind::text:
        return quote(key.marked());
      case Kind::none:
        return out_.append("\"null\"");
      case Kind::boolean:
        return out_.append(key.flag() ? "\"true\"" : "\"false\"");
      case Kind::integer:
        return out_.append('"' + int_text(key.integer()) + '"');
      case Kind::real:
        return out_.append('"' + number(key.real()) + '"');
      default:
        type_error(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
    }
  }

  void quote(const MarkedText& text) {
    out_.append("\"");
    for (size_t at = 0; at < text.size();) {
      const DecodedChar c = decode_utf8(std::string_view(text.bytes).substr(at));
      const size_t size = static_cast<size_t>(c.num_bytes);
      if (const std::string escaped = escape(c.code); escaped.empty()) {
        out_.append(text, at, at + size);
      } else {
        out_.append(escaped, text.marks_at(at));
      }
      at += size;
    }
    out_.append("\"");
  }

  std::string escape(uint32_t code) const {
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
    }
    if (code < 0x20) return fmt::format("\\u{:04x}", code);
    if (!style_.ensure_ascii || code < 0x7f) return {};
    if (code == 0x7f) return {};
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    code -= 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
  }

  Meter* meter_;
  const JsonStyle& style_;
  MarkedText out_;
};

}  // namespace

MarkedText to_json(Meter* meter, const Value& v, const JsonStyle& style) {
  Writer writer(meter, style);
  writer.write(v, 0);
  return writer.take();
}

}  // namespace tern::jinja
