#include "formats/data/mixture.h"

#include "base/error.h"
#include "base/io.h"
#include "base/toml.h"

namespace tern {

bool is_mixture(const std::string& path) { return path.ends_with(".toml"); }

std::vector<DataSource> data_sources(const std::string& path) {
  if (!is_mixture(path)) return {{path, 1}};
  const TomlValue file = read_toml_file(path);
  TomlFields fields(file, path);
  const TomlValue& list = fields.require("source", TomlValue::Kind::array);
  fields.finish();
  std::vector<DataSource> sources;
  double all = 0;
  for (const TomlValue& element : list.elements) {
    if (element.kind != TomlValue::Kind::table)
      throw Error(ErrorKind::bad_file, "{}:{}: source: expected tables, [[source]]", path, element.line);
    TomlFields source(element, path, "source.");
    const std::string data = source.text("data");
    const double share = source.number("share", 0, 1e9, 1);
    source.finish();
    if (!(share > 0))
      throw Error(ErrorKind::bad_file, "{}:{}: source.share: {}, expected a number above 0", path, element.line, share);
    if (is_mixture(data))
      throw Error(ErrorKind::bad_file, "{}:{}: source.data: \"{}\" is a mixture itself; name its sources here", path,
                  element.line, data);
    const bool is_whole = data.starts_with("/") || parent_path(path) == ".";
    sources.push_back({is_whole ? data : join_path(parent_path(path), data), share});
    all += share;
  }
  if (sources.empty()) throw Error(ErrorKind::bad_file, "{}: no [[source]]", path);
  for (DataSource& source : sources) source.share /= all;
  return sources;
}

}  // namespace tern
