#pragma once
// Data from several sources, each with its share of the samples: a TOML file.
//   [[source]]
//   data = "books/"     # a text, JSONL, a token file or a folder; beside the TOML file unless absolute
//   share = 0.7         # shares count by their ratios

#include <string>
#include <vector>

namespace tern {

/// Data, and how large a part of the samples they give.
struct DataSource {
  std::string path;
  double share = 1;  // of the samples; all together 1
};

/// Whether a path names a mixture: *.toml.
bool is_mixture(const std::string& path);
/// The sources of the mixture at `path`; if it is none, one source: the path itself. Errors: bad_file, naming line and
/// key: not such a TOML file; no source; a share that is not above 0; a source that is a mixture.
std::vector<DataSource> data_sources(const std::string& path);

}  // namespace tern
