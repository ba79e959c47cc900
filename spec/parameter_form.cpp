#include "spec/parameter_form.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

void add_tables(const EmbedSpec& u, const CostQuery& q, std::vector<CountedForm>& forms) {
  const int64_t vocab = (u.vocab + q.tensor - 1) / q.tensor;
  for (const int64_t rows : {vocab, u.positions, u.token_types})
    if (rows > 0) forms.push_back({{ParameterKind::table, rows, u.width}});
}

}  // namespace

std::vector<CountedForm> trained_forms(const Unit& unit, const CostQuery& q) {
  return trained_forms(unit, q, unit_cost(unit, q));
}

std::vector<CountedForm> trained_forms(const Unit& unit, const CostQuery& q, const UnitCost& cost) {
  std::vector<CountedForm> forms;
  if (cost.trained == 0) return forms;
  const auto* head = std::get_if<HeadSpec>(&unit.spec);
  if (const auto* e = std::get_if<EmbedSpec>(&unit.spec)) add_tables(*e, q, forms);
  for (const MatrixProduct& p : unit_products(unit, q))
    if (p.trained && !(head && head->tied))
      forms.push_back(
          {{head ? ParameterKind::table : ParameterKind::matrix, p.n, p.k}, p.is_expert ? p.count : 1, p.is_expert});
  int64_t rest[2] = {cost.trained - cost.expert_trained, cost.expert_trained};
  for (const CountedForm& f : forms) rest[f.expert] -= f.count * f.form.elements();
  TERN_CHECK(rest[0] >= 0 && rest[1] >= 0, "trained_forms: {} and {} elements too many", -rest[0], -rest[1]);
  for (const bool expert : {false, true})
    if (rest[expert] > 0) forms.push_back({{ParameterKind::vector, 1, rest[expert]}, 1, expert});
  return forms;
}

}  // namespace tern
