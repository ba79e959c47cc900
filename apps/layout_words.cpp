#include "apps/layout_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"

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

std::string without_layer(const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) return name;
  return std::string(kLayers) + "*" + name.substr(name.find('.', kLayers.size()));
}

std::vector<LayoutRow> rows_of(const std::vector<ParameterLayout>& parameters) {
  std::vector<LayoutRow> rows;
  for (const ParameterLayout& p : parameters) {
    const std::string name = without_layer(p.name), layouts = words_of(p);
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
  const std::vector<LayoutRow> rows = rows_of(d.parameters);
  size_t width = std::string_view("between units").size();
  for (const LayoutRow& r : rows) width = std::max(width, r.name.size());
  std::string out = fmt::format(
      "layouts on {} ranks that send the fewest bytes, if no rank keeps a whole matrix and every operator is divided;\n"
      "a micro-batch of {}, {} rows in {}\n"
      "S(d): split along dim d of (out, in); B: whole on each rank; P: summands\n\n",
      q.ranks, counted(q.sequences, "sequence"), format_with_commas(q.rows), name_of(q.dtype));
  for (const LayoutRow& r : rows) {
    const bool differs = std::ranges::count(rows, r.name, &LayoutRow::name) > 1;
    out += fmt::format("{:<{}}  {}{}\n", r.name, width, r.layouts,
                       differs ? fmt::format(" in {}", counted(r.count, "layer")) : "");
  }
  out += fmt::format("{:<{}}  {}\n\n", "between units", width, between_units(d.rows));
  return out + fmt::format("sent by all ranks together: {} forward, {} backward with sums of gradients\n",
                           format_bytes(d.forward_bytes), format_bytes(d.backward_bytes));
}

Json layout_json(const ModelSpec& spec, const LayoutQuestion& q) {
  const DerivedLayouts d = derive_layouts(spec, q);
  Json parameters = Json::array(), rows = Json::array();
  for (const ParameterLayout& p : d.parameters)
    parameters.push_back({{"name", p.name}, {"kept", to_string(p.kept)}, {"used", to_string(p.used)}});
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
