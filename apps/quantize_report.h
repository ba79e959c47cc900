#pragma once
// What a quantized model lost, on texts and tensor by tensor: the report of tern quantize --report.

#include <string>
#include <vector>

#include "base/json.h"
#include "eval/compare_models.h"
#include "infer/load.h"
#include "model/rounding_error.h"

namespace tern {

/// Of one text.
struct TextLoss {
  std::string path;
  int64_t bytes = 0;  // 0: not counted, as the first token has nothing before it and is not scored
  CompareReport figures;
  /// Bits per byte of a mean loss per token; 0 without bytes.
  double per_byte(double loss) const;
};
struct TensorLoss {
  RoundingError error;
  std::string type;  // as it is written
};
struct QuantizeReport {
  const Json& run;  // the request and the result, as --json prints them
  std::vector<TextLoss> texts = {};
  std::vector<TensorLoss> tensors = {};
};

/// Both models over one text, unit by unit out of their files, in f32: windows of at most 1,024 tokens, each of the text's scored once.
/// Memory  measuring_bytes, whatever the depth of the models and the length of the text, beside the text itself.
/// Errors  bad_file, usage: no tokenizer, a text without a token to score; interrupted: a stop was asked for.
TextLoss measure_text(const ModelDescription& original, const std::string& quantized, const std::string& path);
int64_t measuring_bytes(const ModelDescription&);

/// Errors  usage: a name that ends in none of .txt, .json, .html.
void require_report_name(const std::string& path);
/// As the name of the file says.
std::string report_file(const QuantizeReport&, const std::string& path);

}  // namespace tern
