#pragma once
// The report of `tern quantize --report`: what a quantized model lost, on texts and tensor by tensor.

#include <string>
#include <vector>

#include "base/json.h"
#include "eval/compare_models.h"
#include "infer/load.h"
#include "model/rounding_error.h"

namespace tern {

/// What a quantized model lost on one text.
struct TextLoss {
  std::string path;
  int64_t bytes = 0;  // of the text; 0: not counted, as its first token has no token before it and is not scored
  CompareReport figures;
  /// The bits per byte of a mean loss per token, in nats; 0 if `bytes` is 0.
  double per_byte(double loss) const;
};
/// What the rounding of one tensor lost.
struct TensorLoss {
  RoundingError error;
  std::string type;  // the type's name
};
struct QuantizeReport {
  const Json& run;  // the request and the result, as --json prints them
  std::vector<TextLoss> texts = {};
  std::vector<TensorLoss> tensors = {};
};

/// Runs both models over one text in f32; they read units one by one from their files. Windows have at most 1,024 tokens;
/// each token of the text is scored once.
/// Memory  measuring_bytes beside the text itself, whatever the depth of the models and the length of the text.
/// Errors  bad_file, usage: no tokenizer, a text without a token to score; interrupted: a stop was asked for.
TextLoss measure_text(const ModelDescription& original, const std::string& quantized, const std::string& path);
int64_t measuring_bytes(const ModelDescription&);
/// Checks the name of a report. Errors  usage: it ends in none of .txt, .json, .html.
void require_report_name(const std::string& path);
/// The text of the report, in the format that the name of the file says.
std::string report_file(const QuantizeReport&, const std::string& path);

}  // namespace tern
