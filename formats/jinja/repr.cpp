// Values as Python prints them: str() and repr().
#include <fmt/format.h>
#include <utf8proc.h>

#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "formats/jinja/jinja_impl.h"

namespace tern::jinja {
namespace {

bool printable(uint32_t code) {
  if (code == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

void append_escape(std::string& out, uint32_t code) {
  if (code < 0x100) {
    out += fmt::format("\\x{:02x}", code);
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += fmt::format("\\U{:08x}", code);
  }
}

MarkedText repr_marked(const MarkedText& text) {
  const bool single = text.bytes.find('\'') != std::string::npos, both = text.bytes.find('"') != std::string::npos;
  const char quote = single && !both ? '"' : '\'';
  MarkedText out;
  out.append(std::string_view(&quote, 1));
  for (size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(std::string_view(text.bytes).substr(at));
    const size_t size = static_cast<size_t>(c.num_bytes);
    std::string escaped;
    if (c.code == static_cast<uint32_t>(quote) || c.code == '\\') {
      escaped = {'\\', static_cast<char>(c.code)};
    } else if (c.code == '\n') {
      escaped = "\\n";
    } else if (c.code == '\r') {
      escaped = "\\r";
    } else if (c.code == '\t') {
      escaped = "\\t";
    } else if (!printable(c.code)) {
      append_escape(escaped, c.code);
    }
    if (escaped.empty()) {
      out.append(text, at, at + size);
    } else {
      out.append(escaped, text.marks_at(at));
    }
    at += size;
  }
  out.append(std::string_view(&quote, 1));
  return out;
}

void append_repr(Meter* meter, const Value& v, MarkedText& out);

void check(Meter* meter, const MarkedText& out) {
  if (!meter) return;
  meter->check_text(out.size());
  meter->work(16);
}

void append_items(Meter* meter, const ValueList& items, MarkedText& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(meter, items[i], out);
    check(meter, out);
  }
}

void append_dict(Meter* meter, const DictObject& dict, MarkedText& out) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (!first) out.append(", ");
    first = false;
    append_repr(meter, key, out);
    out.append(": ");
    append_repr(meter, value, out);
    check(meter, out);
  }
  out.append("}");
}

void append_view(Meter* meter, const Value& v, MarkedText& out) {
  out.append(fmt::format("{}([", type_name(v)));
  bool first = true;
  for (const auto& [key, value] : v.view().dict.dict().items) {
    if (!first) out.append(", ");
    first = false;
    const ViewObject::What what = v.view().what;
    if (what == ViewObject::What::items) out.append("(");
    if (what != ViewObject::What::values) append_repr(meter, key, out);
    if (what == ViewObject::What::items) out.append(", ");
    if (what != ViewObject::What::keys) append_repr(meter, value, out);
    if (what == ViewObject::What::items) out.append(")");
    check(meter, out);
  }
  out.append("])");
}

void append_namespace(Meter* meter, const NamespaceObject& names, MarkedText& out) {
  out.append("<Namespace {");
  bool first = true;
  for (const auto& [key, value] : names.attributes) {
    if (!first) out.append(", ");
    first = false;
    out.append(repr_text(key));
    out.append(": ");
    append_repr(meter, value, out);
    check(meter, out);
  }
  out.append("}>");
}

void append_repr(Meter* meter, const Value& v, MarkedText& out) {
  struct Guard {
    Meter* m;
    explicit Guard(Meter* meter_) : m(meter_) {
      if (m) m->enter();  // a namespace may hold itself
    }
    ~Guard() {
      if (m) m->leave();
    }
  } guard(meter);
  switch (v.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return out.append("Undefined");
    case Kind::none:
      return out.append("None");
    case Kind::boolean:
      return out.append(v.flag() ? "True" : "False");
    case Kind::integer:
      return out.append(int_text(v.integer()));
    case Kind::real:
      return out.append(real_text(v.real()));
    case Kind::text:
      if (v.safe()) out.append("Markup(");
      out.append(repr_marked(v.marked()));
      if (v.safe()) out.append(")");
      return;
    case Kind::list:
      out.append("[");
      append_items(meter, v.list().items, out);
      return out.append("]");
    case Kind::tuple:
      out.append("(");
      append_items(meter, v.list().items, out);
      return out.append(v.list().items.size() == 1 ? ",)" : ")");
    case Kind::dict:
      return append_dict(meter, v.dict(), out);
    case Kind::range: {
      const RangeObject& r = v.range();
      const Int stop = r.start + r.size * r.step;
      out.append(fmt::format("range({}, {}", int_text(r.start), int_text(stop)));
      if (r.step != 1) out.append(", " + int_text(r.step));
      return out.append(")");
    }
    case Kind::view:
      return append_view(meter, v, out);
    case Kind::name_space:
      return append_namespace(meter, v.name_space(), out);
    case Kind::method:  // Python would print an address; ours stay private
      return out.append(fmt::format("<built-in method {} of {} object>", v.method().name, type_name(v.method().self)));
    case Kind::macro:
      return out.append(fmt::format("<Macro {}>", repr_text(macro_name(v))));
    case Kind::loop:
      return out.append(loop_text(v));
    default:
      return out.append(fmt::format("<{} object>", type_name(v)));
  }
}

}  // namespace

std::string int_text(Int i) { return fmt::format("{}", i); }

std::string real_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<size_t>(end - buffer));  // D.DDDe+XX, the fewest digits
  const size_t e = shortest.find('e');
  int exponent = 0;
  std::from_chars(buffer + e + (buffer[e + 1] == '+' ? 2 : 1), end, exponent);
  std::string digits, sign;
  for (const char c : shortest.substr(0, e)) {
    if (c == '-') {
      sign = "-";
    } else if (c != '.') {
      digits += c;
    }
  }
  if (exponent < -4 || exponent >= 16) {  // Python's repr leaves positional notation here
    std::string out = sign + digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  const size_t n = digits.size();
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (n <= whole) return sign + digits + std::string(whole - n, '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string repr_text(std::string_view text) { return repr_marked(MarkedText(std::string(text))).bytes; }

MarkedText to_repr(Meter* meter, const Value& v) {
  MarkedText out;
  append_repr(meter, v, out);
  return out;
}

MarkedText to_text(Meter* meter, const Value& v) {
  switch (v.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return {};
    case Kind::text:
      return v.marked();
    default:
      return to_repr(meter, v);
  }
}

}  // namespace tern::jinja
