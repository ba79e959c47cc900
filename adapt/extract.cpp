#include "adapt/extract.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "base/error.h"
#include "kernels/lapack/svd.h"
#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/not_finite.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// A matrix that may get an adapter: some rows of a parameter.
struct MatrixRows {
  AdaptedPlace place;
  int64_t row_begin, row_end, rank;
};
using RowsByParameter = std::map<std::string, std::vector<MatrixRows>>;

RowsByParameter adapted_rows(const ModelSpec& spec) {
  std::map<std::pair<int, AdaptedModule>, AdaptedPlace> places;
  for (AdaptedPlace& p : adapted_places(spec)) {
    const std::pair key(p.unit, p.module);
    places.emplace(key, std::move(p));
  }
  RowsByParameter rows;
  ModelWeights shapes = empty_weights(spec);
  for_each_linear(spec, shapes, [&](const ParameterInfo& info, const Linear& linear) {
    for (const Branch& b : linear.branches)
      rows[info.name].push_back({places.at({info.unit, b.module}), b.row_begin, b.row_end, b.rank});
  });
  return rows;
}

// All that the files hold: parameters, then what is never trained.
std::vector<ParameterInfo> compared_parameters(const ModelSpec& spec) {
  std::vector<ParameterInfo> all = parameters(spec);
  ModelWeights shapes = empty_weights(spec);
  for_each_fixed(spec, shapes, [&](const ParameterInfo& info, Tensor&) { all.push_back(info); });
  return all;
}

using InfosByName = std::map<std::string, ParameterInfo>;
InfosByName infos_by_name(std::vector<ParameterInfo> infos) {
  InfosByName all;
  for (ParameterInfo& info : infos) {
    const std::string name = info.name;
    all.emplace(name, std::move(info));
  }
  return all;
}

int64_t width_of(const ParameterInfo& info) { return info.shape.rank == 2 ? info.shape[1] : 1; }

// Adds sign times the numbers of one row.
void add_row(const Tensor& t, int64_t row, double sign, std::span<double> to) {
  ops::by_dtype(t.dtype(), [&]<class T>() {
    const auto from = std::span<const T>(t.span<T>()).subspan(static_cast<size_t>(row) * to.size(), to.size());
    for (size_t i = 0; i < to.size(); ++i) to[i] += sign * number_as<double>(from[i]);
  });
}

// One parameter in both models.
struct BothTensors {
  Tensor base, tuned;
  // `to`: zeros, which become a row of tuned − base. Returns whether any differs.
  bool difference(int64_t row, std::span<double> to, const std::string& name) const {
    add_row(tuned, row, 1, to);
    add_row(base, row, -1, to);
    bool any = false;
    for (const double x : to) {
      if (!std::isfinite(x)) throw NotFinite("'{}' holds a number that is not finite, in one of the two models", name);
      any = any || x != 0;
    }
    return any;
  }
};

// The rows of an adapted matrix, in the order of the files.
std::vector<double> matrix_difference(const BothTensors& both, const MatrixRows& rows, int64_t width, bool& differs) {
  std::vector<double> difference(static_cast<size_t>((rows.row_end - rows.row_begin) * width));
  differs = false;
  for (const Fragment& f : rows.place.out_rows)
    for (int64_t i = 0; i < f.row_end - f.row_begin; ++i) {
      const auto to = static_cast<size_t>((f.file_row + i * f.file_step) * width);
      if (both.difference(rows.row_begin + f.row_begin + i,
                          std::span(difference).subspan(to, static_cast<size_t>(width)), rows.place.path))
        differs = true;
    }
  return difference;
}

bool fragment_differs(const BothTensors& both, const Fragment& f, int64_t width) {
  bool differs = false;
  std::vector<double> row(static_cast<size_t>(width));
  for (int64_t r = f.row_begin; r < f.row_end; ++r) {
    std::ranges::fill(row, 0.0);
    if (both.difference(r, row, f.name)) differs = true;
  }
  return differs;
}

// Goes over the parameters and gathers.
class AdapterExtraction {
 public:
  explicit AdapterExtraction(const ModelSpec& base) : rows_(adapted_rows(base)) {}

  void take(const ParameterInfo& info, const BothTensors& both) {
    const auto found = rows_.find(info.name);
    const std::span<const MatrixRows> adapted = found == rows_.end() ? std::span<const MatrixRows>() : found->second;
    for (const MatrixRows& rows : adapted) cut(rows, both, width_of(info));
    for (const Fragment& f : info.fragments) {
      const bool has_adapter = std::ranges::any_of(
          adapted, [&](const MatrixRows& m) { return m.row_begin <= f.row_begin && f.row_end <= m.row_end; });
      if (!has_adapter && fragment_differs(both, f, width_of(info)) && named_.insert(f.name).second)
        all_.left_out.push_back(f.name);
    }
  }
  ExtractedAdapter result() { return std::move(all_); }

 private:
  void cut(const MatrixRows& rows, const BothTensors& both, int64_t width) {
    bool differs = false;
    std::vector<double> difference = matrix_difference(both, rows, width, differs);
    if (!differs) {
      ++all_.same;
      return;
    }
    CutDifference c = cut_difference(std::move(difference), rows.row_end - rows.row_begin, width, rows.rank);
    all_.cuts.push_back({rows.place.path, c.squares, c.kept_squares});
    all_.matrices.emplace(rows.place.path, std::move(c.factors));
  }

  RowsByParameter rows_;
  ExtractedAdapter all_;
  std::set<std::string> named_;  // a tensor of the files may be several fragments
};

}  // namespace

CutDifference cut_difference(std::vector<double> difference, int64_t out, int64_t in, int64_t rank) {
  const ThinSvd svd = thin_svd(std::move(difference), out, in);
  const auto all = svd.s.size(), kept = std::min(all, static_cast<size_t>(rank)), rows = static_cast<size_t>(out),
             width = static_cast<size_t>(in);
  CutDifference c;
  for (size_t i = 0; i < all; ++i) c.squares += svd.s[i] * svd.s[i];
  for (size_t i = 0; i < kept; ++i) c.kept_squares += svd.s[i] * svd.s[i];
  AdapterMatrix& m = c.factors;
  m.rank = static_cast<int64_t>(kept), m.out = out, m.in = in;
  m.a.resize(kept * width), m.b.resize(rows * kept);
  for (size_t i = 0; i < kept; ++i) {
    const double root = std::sqrt(svd.s[i]);
    for (size_t k = 0; k < width; ++k) m.a[i * width + k] = root * svd.vt[i * width + k];
    for (size_t r = 0; r < rows; ++r) m.b[r * kept + i] = root * svd.u[r * all + i];
  }
  return c;
}

MatrixCut ExtractedAdapter::whole() const {
  MatrixCut sum;
  for (const MatrixCut& c : cuts) sum.squares += c.squares, sum.kept_squares += c.kept_squares;
  return sum;
}

void require_same_parameters(const ModelSpec& base, const ModelSpec& tuned) {
  const auto refuse = [](const std::string& name, const std::string& in_base, const std::string& in_tuned) {
    throw Error(ErrorKind::bad_file,
                "extract: '{}' {} in the base, {} in the tuned model; an adapter needs a base of the same family and "
                "sizes",
                name, in_base, in_tuned);
  };
  const auto shape = [](const ParameterInfo& info) { return "has shape " + to_string(info.shape); };
  const std::string missing = "is missing";
  InfosByName of_tuned = infos_by_name(compared_parameters(tuned));
  for (const ParameterInfo& mine : compared_parameters(base)) {
    const auto its = of_tuned.find(mine.name);
    if (its == of_tuned.end()) refuse(mine.name, shape(mine), missing);
    if (!(its->second.shape == mine.shape)) refuse(mine.name, shape(mine), shape(its->second));
    of_tuned.erase(its);
  }
  for (const auto& [name, info] : of_tuned) refuse(name, missing, shape(info));
}

ExtractedAdapter extract_adapter(const ReadableModel& base, const ReadableModel& tuned,
                                 const std::function<void(int64_t done)>& progress) {
  require_same_parameters(base.spec, tuned.spec);
  const InfosByName of_tuned = infos_by_name(compared_parameters(tuned.spec));  // its files may have other names
  const std::vector<ParameterInfo> all = compared_parameters(base.spec);
  AdapterExtraction extraction(base.spec);
  for (size_t i = 0; i < all.size(); ++i) {
    const BothTensors both{base.read(all[i]), tuned.read(of_tuned.at(all[i].name))};
    extraction.take(all[i], both);
    progress(static_cast<int64_t>(i) + 1);
  }
  return extraction.result();
}

}  // namespace tern
