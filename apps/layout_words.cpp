#include "apps/layout_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "model/tensor_parts.h"

namespace tern {
namespace {

// A parameter with its layer's number left out.
struct LayoutRow {
  std::string name, layouts;
  int64_t count = 0;
};

// "S(0)", or "S(0), gathered for the passes".
std::string words_of(const ParameterLayout& p) {
  if (p.kept == p.used) return to_string(p.kept);
  return to_string(p.kept) + (p.used == whole() ? ", gathered for the passes" : ", used as " + to_string(p.used));
}

// "layers.*.mlp.up.weight"; a tied table's second use: "embed.tokens, in the head".
std::string name_of_row(const ModelSpec& spec, const ParameterLayout& p) {
  constexpr std::string_view kLayers = "layers.";
  if (p.name.starts_with(kLayers)) return std::string(kLayers) + "*" + p.name.substr(p.name.find('.', kLayers.size()));
  const bool again =
      p.name.starts_with("embed.") && std::holds_alternative<HeadSpec>(spec.units[static_cast<size_t>(p.unit)].spec);
  return p.name + (again ? ", in the head" : "");
}

std::vector<LayoutRow> rows_of(const ModelSpec& spec, const std::vector<ParameterLayout>& parameters) {
  std::vector<LayoutRow> rows;
  for (const ParameterLayout& p : parameters) {
    const std::string name = name_of_row(spec, p), layouts = words_of(p);
    const auto known =
        std::ranges::find_if(rows, [&](const LayoutRow& r) { return r.name == name && r.layouts == layouts; });
    if (known == rows.end())
      rows.push_back({name, layouts, 1});
    else
      ++known->count;
  }
  return rows;
}

// "S(1), then 11 times S(0)".
std::string between_units(const std::vector<AxisLayout>& rows) {
  std::string words;
  for (size_t from = 0, to; from < rows.size(); from = to) {
    to = static_cast<size_t>(std::find_if(rows.begin() + static_cast<int64_t>(from), rows.end(),
                                          [&](const AxisLayout& r) { return r != rows[from]; }) -
                             rows.begin());
    words += words.empty() ? "" : ", then ";
    if (to - from > 1) words += fmt::format("{} times ", to - from);
    words += to_string(rows[from]);
  }
  return words;
}

}  // namespace

std::string layout_words(const ModelSpec& spec, const LayoutQuestion& q) {
  const DerivedLayouts d = derive_layouts(spec, q);
  const std::vector<LayoutRow> rows = rows_of(spec, d.parameters);
  size_t width = std::string_view("between units").size();
  for (const LayoutRow& r : rows) width = std::max(width, r.name.size());
  std::string out = fmt::format(
      "layouts on {} ranks that send the fewest bytes, if no rank keeps a whole\n"
      "matrix and every operator is divided; a micro-batch of {}, {} rows\n"
      "in {}\n\n"
      "S(d)  split along dim d: of a matrix 0 is its outputs and 1 its inputs, of the\n"
      "      table of tokens 0 is the tokens, between units 0 is the rows; of 3\n"
      "      sections: each of 3 stacked matrices is split\n"
      "B     whole on each rank\n"
      "P     summands\n\n",
      q.ranks, counted(q.sequences, "sequence"), format_with_commas(q.rows), name_of(q.dtype));
  for (const LayoutRow& r : rows) {
    const bool differs = std::ranges::count(rows, r.name, &LayoutRow::name) > 1;
    out += fmt::format("{:<{}}  {}{}\n", r.name, width, r.layouts,
                       differs ? fmt::format(" in {}", counted(r.count, "layer")) : "");
  }
  out += fmt::format("{:<{}}  {}\n\n", "between units", width, between_units(d.rows));
  if (const std::string fault = why_not_in_parts(spec, q.ranks); !fault.empty())
    out += fmt::format("tern train does not run tensor parallelism over {} ranks of this model: {}\n", q.ranks, fault);
  return out + fmt::format("sent by all ranks together: {} forward, {} backward with sums of gradients\n",
                           format_bytes(d.forward_bytes), format_bytes(d.backward_bytes));
}

Json layout_json(const ModelSpec& spec, const LayoutQuestion& q) {
  const DerivedLayouts d = derive_layouts(spec, q);
  Json parameters = Json::array(), rows = Json::array();
  for (const ParameterLayout& p : d.parameters)
    parameters.push_back(
        {{"name", p.name}, {"unit", p.unit}, {"kept", to_string(p.kept)}, {"used", to_string(p.used)}});
  for (const AxisLayout& r : d.rows) rows.push_back(to_string(r));
  return {{"ranks", q.ranks},
          {"rows", q.rows},
          {"sequences", q.sequences},
          {"dtype", name_of(q.dtype)},
          {"parameters", std::move(parameters)},
          {"rows_between_units", std::move(rows)},
          {"forward_bytes", d.forward_bytes},
          {"backward_bytes", d.backward_bytes}};
}

}  // namespace tern
