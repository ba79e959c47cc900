#include "formats/jinja/jinja.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"
#include "formats/jinja/eval.h"

namespace tern {

struct JinjaTemplate::Program {
  std::string place;
  jinja::Parsed parsed;
};

JinjaError::JinjaError(JinjaFault fault, const std::string& place, int line, std::string reason)
    : Error(fault == JinjaFault::raised ? ErrorKind::usage : ErrorKind::bad_file, "{}{}: {}", place,
            line > 0 ? fmt::format(": line {}", line) : "", make_printable(reason.substr(0, 1200))),
      fault_(fault),
      line_(line),
      reason_(std::move(reason)) {}

namespace {

std::string spoken(JinjaFault fault, const std::string& reason) {
  switch (fault) {
    case JinjaFault::unsupported:
      return reason + " is outside of the Jinja that tern reads; see docs/templates.md";
    case JinjaFault::limit:
      return reason + "; templates are bounded (docs/templates.md)";
    default:
      return reason;
  }
}

}  // namespace

JinjaTemplate JinjaTemplate::parse(std::string_view source, std::string place) {
  if (source.size() > kJinjaMaxSourceBytes)
    throw JinjaError(JinjaFault::limit, place, 0,
                     fmt::format("a template of {} bytes; at most {}", source.size(), kJinjaMaxSourceBytes));
  if (const size_t bad = find_invalid_utf8(source); bad != std::string_view::npos)
    throw JinjaError(
        JinjaFault::syntax, place,
        1 + static_cast<int>(std::count(source.begin(), source.begin() + static_cast<ptrdiff_t>(bad), '\n')),
        fmt::format("byte {} is not UTF-8", bad));
  try {
    auto program = std::make_shared<Program>();
    program->parsed = jinja::parse(source);
    program->place = place;
    JinjaTemplate t;
    t.program_ = std::move(program);
    return t;
  } catch (const jinja::Failure& failure) {
    throw JinjaError(failure.fault, place, failure.line, spoken(failure.fault, failure.reason));
  }
}

MarkedText JinjaTemplate::render(const std::vector<JinjaVariable>& variables, const JinjaRenderOptions& options) const {
  try {
    return jinja::Evaluator(program_->parsed, variables, options).run();
  } catch (const jinja::Failure& failure) {
    throw JinjaError(failure.fault, program_->place, failure.line, spoken(failure.fault, failure.reason));
  }
}

bool JinjaTemplate::has_generation_tag() const { return program_->parsed.has_generation; }
bool JinjaTemplate::uses(std::string_view variable) const {
  const auto& names = program_->parsed.names;
  return std::binary_search(names.begin(), names.end(), variable);
}
const std::vector<std::string>& JinjaTemplate::notes() const { return program_->parsed.notes; }
const std::string& JinjaTemplate::place() const { return program_->place; }

}  // namespace tern
