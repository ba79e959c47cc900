// Python's two ways to format text: "%s" % x, and "{}".format(x) with plain fields.
#include "formats/jinja/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/jinja/eval.h"
#include "formats/jinja/text.h"

namespace tern::jinja {
namespace {

struct Spec {
  bool left = false, zero = false, plus = false, blank = false, alternate = false;
  int64_t width = 0, precision = -1;
  char kind = 's';
};

size_t num_chars(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

MarkedText padded(Evaluator& ev, MarkedText body, const Spec& spec, bool numeric) {
  const auto size = static_cast<int64_t>(num_chars(body.bytes));
  if (size >= spec.width) return body;
  const auto missing = static_cast<size_t>(spec.width - size);
  ev.meter.check_text(body.size() + missing);
  MarkedText out;
  if (spec.left) {
    out.append(body);
    out.append(std::string(missing, ' '));
    return out;
  }
  if (spec.zero && numeric) {
    const size_t sign = body.bytes.find_first_of("+- ") == 0 ? 1 : 0;
    out.append(body, 0, sign);
    out.append(std::string(missing, '0'));
    out.append(body, sign, body.size());
    return out;
  }
  out.append(std::string(missing, ' '));
  out.append(body);
  return out;
}

std::string signed_text(std::string digits, bool negative, const Spec& spec) {
  return (negative ? "-" : spec.plus ? "+" : spec.blank ? " " : "") + std::move(digits);
}

std::string integer_text(const Value& v, const Spec& spec) {
  Int i = 0;
  defined(v);
  if (v.is_integral()) {
    i = v.integer();
  } else if (v.is(Kind::real) && (spec.kind == 'd' || spec.kind == 'i' || spec.kind == 'u') &&
             std::isfinite(v.real()) && std::fabs(v.real()) < 1.7e38) {
    i = static_cast<Int>(v.real());
  } else {
    type_error(fmt::format("%{} format: {} is required, not {}", spec.kind,
                           spec.kind == 'd' || spec.kind == 'i' || spec.kind == 'u' ? "a real number" : "an integer",
                           type_name(v)));
  }
  const auto size = static_cast<unsigned __int128>(i);
  const unsigned __int128 magnitude = i < 0 ? ~size + 1 : size;
  std::string digits = spec.kind == 'x'   ? fmt::format("{:x}", magnitude)
                       : spec.kind == 'X' ? fmt::format("{:X}", magnitude)
                       : spec.kind == 'o' ? fmt::format("{:o}", magnitude)
                                          : fmt::format("{}", magnitude);
  if (static_cast<int64_t>(digits.size()) < spec.precision)
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  if (spec.alternate && (spec.kind == 'x' || spec.kind == 'X' || spec.kind == 'o'))
    digits.insert(0, spec.kind == 'o' ? "0o" : spec.kind == 'x' ? "0x" : "0X");
  return signed_text(std::move(digits), i < 0, spec);
}

std::string real_format(const Value& v, const Spec& spec) {
  defined(v);
  if (!v.is_number()) type_error(fmt::format("must be real number, not {}", type_name(v)));
  const double d = v.real();
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(std::min<int64_t>(spec.precision, 400));
  const double magnitude = std::fabs(d);
  std::string digits;
  switch (spec.kind) {
    case 'f':
    case 'F':
      digits = fmt::format("{:.{}f}", magnitude, precision);
      break;
    case 'e':
      digits = fmt::format("{:.{}e}", magnitude, precision);
      break;
    case 'E':
      digits = fmt::format("{:.{}E}", magnitude, precision);
      break;
    case 'G':
      digits = fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
      break;
    default:
      digits = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
  }
  return signed_text(std::move(digits), std::signbit(d), spec);
}

// The walk through a format of "%": where it stands in the text, how many arguments it has taken.
struct PercentWalk {
  Evaluator& ev;
  std::string_view text;
  const Value& arguments;
  size_t at = 0, taken = 0;

  bool has(std::string_view any_of) const {
    return at < text.size() && any_of.find(text[at]) != std::string_view::npos;
  }
  bool all_taken() const {
    if (arguments.is(Kind::tuple)) return taken >= arguments.list().items.size();
    return taken >= 1;
  }
  Value take() {
    if (all_taken()) type_error("not enough arguments for format string");
    const size_t item = taken++;
    return arguments.is(Kind::tuple) ? arguments.list().items[item] : arguments;
  }
  Value named();
  void number(int64_t& n);
  Spec read_spec();
};

// The argument that "(key)" names; missing where no key stands.
Value PercentWalk::named() {
  if (!has("(")) return {};
  const size_t close = text.find(')', at);
  if (close == std::string_view::npos) type_error("incomplete format key");
  if (!arguments.is(Kind::dict)) type_error("format requires a mapping");
  const Value key = ev.maker.text(text.substr(at + 1, close - at - 1));
  const Value* found = dict_find(&ev.meter, arguments.dict(), key);
  if (!found) fail(JinjaFault::runtime, repr_text(key.bytes()));
  at = close + 1;
  return *found;
}

// Digits, or "*": the next argument.
void PercentWalk::number(int64_t& n) {
  if (has("*")) {
    const Value v = take();
    if (!v.is_integral()) type_error("* wants int");
    n = static_cast<int64_t>(std::clamp<Int>(v.integer(), -(Int{1} << 40), Int{1} << 40));
    ++at;
    return;
  }
  n = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    n = std::min<int64_t>(n * 10 + text[at] - '0', int64_t{1} << 40);
}

// Flags, width, precision, the letter.
Spec PercentWalk::read_spec() {
  Spec spec;
  for (; has("-0+ #"); ++at) {
    spec.left = spec.left || text[at] == '-';
    spec.zero = spec.zero || text[at] == '0';
    spec.plus = spec.plus || text[at] == '+';
    spec.blank = spec.blank || text[at] == ' ';
    spec.alternate = spec.alternate || text[at] == '#';
  }
  number(spec.width);
  if (spec.width < 0) {
    spec.left = true;
    spec.width = -spec.width;
  }
  if (has(".")) {
    ++at;
    number(spec.precision);
    spec.precision = std::max<int64_t>(spec.precision, 0);
  }
  while (has("lhL")) ++at;
  if (at >= text.size()) type_error("incomplete format");
  spec.kind = text[at++];
  return spec;
}

// A value as its letter writes it, within its width.
MarkedText converted(Evaluator& ev, const Value& v, const Spec& spec, bool safe) {
  MarkedText body;
  const bool numeric = spec.kind != 's' && spec.kind != 'r' && spec.kind != 'c';
  if (!numeric) {
    body = spec.kind == 'r' ? to_repr(&ev.meter, v) : ev.str(v);
    if (safe && !v.safe()) body = escape_html(body);
    if (spec.kind == 'c' && num_chars(body.bytes) != 1) type_error("%c requires int or char");
    if (spec.precision >= 0) {
      const TextObject whole(nullptr, body, false);
      body = body.slice(0, byte_offset(whole, static_cast<size_t>(spec.precision)));
    }
  } else if (std::string_view("fFeEgG").find(spec.kind) != std::string_view::npos) {
    body.append(real_format(v, spec));
  } else {
    body.append(integer_text(v, spec));
  }
  return padded(ev, std::move(body), spec, numeric);
}

}  // namespace

MarkedText percent_format(Evaluator& ev, const MarkedText& format, const Value& arguments, bool safe) {
  const bool is_mapping = arguments.is(Kind::dict) || arguments.is(Kind::list) || arguments.is(Kind::undefined) ||
                          arguments.is(Kind::range);
  const std::string_view text = format.bytes;
  PercentWalk walk{ev, text, arguments};
  MarkedText out;
  while (walk.at < text.size()) {
    const size_t percent = std::min(text.find('%', walk.at), text.size());
    out.append(format, walk.at, percent);
    walk.at = percent;
    if (percent >= text.size()) break;
    ++walk.at;
    const Value named = walk.named();
    const Spec spec = walk.read_spec();
    ev.meter.work(64);
    if (spec.precision > static_cast<int64_t>(ev.meter.limits().max_output_bytes))
      fail(JinjaFault::limit, "a precision beyond any text");
    if (spec.kind == '%') {
      out.append("%");
      continue;
    }
    if (std::string_view("srdiuxXofFeEgGc").find(spec.kind) == std::string_view::npos)
      type_error(fmt::format("unsupported format character '{}'", spec.kind));
    out.append(converted(ev, named.is(Kind::missing) ? walk.take() : named, spec, safe));
    ev.meter.check_text(out.size());
  }
  if (!walk.all_taken() && !is_mapping) type_error("not all arguments converted during string formatting");
  return out;
}

MarkedText brace_format(Evaluator& ev, const MarkedText& format, const CallArguments& arguments) {
  MarkedText out;
  const std::string_view text = format.bytes;
  size_t next = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      out.append(format, i, i + 1);
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == c) {
      out.append(format, i, i + 1);
      ++i;
      continue;
    }
    if (c == '}') type_error("Single '}' encountered in format string");
    const size_t close = text.find('}', i);
    if (close == std::string_view::npos) type_error("Single '{' encountered in format string");
    const std::string_view field = text.substr(i + 1, close - i - 1);
    if (field.find_first_of(".[:!{") != std::string_view::npos)
      fail(JinjaFault::unsupported, fmt::format("the format field {}", repr_text(field.substr(0, 60))));
    const Value* v = nullptr;
    if (field.empty() || std::all_of(field.begin(), field.end(), [](char d) { return d >= '0' && d <= '9'; })) {
      const size_t at = field.empty() ? next++ : static_cast<size_t>(std::stoul(std::string(field.substr(0, 9))));
      if (at >= arguments.positional.size())
        fail(JinjaFault::runtime, fmt::format("Replacement index {} out of range for positional args tuple", at));
      v = &arguments.positional[at];
    } else {
      for (const auto& [name, value] : arguments.keywords)
        if (name == field) v = &value;
      if (!v) fail(JinjaFault::runtime, repr_text(field));
    }
    out.append(ev.str(*v));
    ev.meter.check_text(out.size());
    ev.meter.work(64);
    i = close;
  }
  return out;
}

}  // namespace tern::jinja
