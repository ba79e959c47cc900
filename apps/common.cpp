#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/signals.h"
#include "apps/threads.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/system.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"
#include "infer/load.h"
#include "kernels/dispatch.h"

namespace tern {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[16];
  return std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &parts)) > 0 ? text : "";
}

int apply_threads(const Options& options) {
  const int64_t wished = options.has("threads") ? options.integer("threads") : 0;
  if (const int usable = read_cpu_facts().num_usable; wished > usable)
    log_warn("{}: {} threads on the {} this process may use take turns, which is slower than {}",
             options.value("threads").where, wished, counted(usable, "CPU"), usable);
  const int threads = set_compute_threads(static_cast<int>(wished));
  const Isa isa = active_isa();
  const char* wanted = std::getenv("TERN_ISA");
  if (!wanted || !*wanted)
    for (const std::string& text : describe_fallbacks(examined_isas(), isa)) log_warn("{}", text);
  return threads;
}

std::optional<DType> dtype_option(const Options& options) {
  if (!options.has("dtype")) return std::nullopt;
  return dtype_from_name(options.text("dtype"));
}

std::optional<KvType> kv_option(const Options& options, DType computed) {
  if (!options.has("kv-dtype")) return {};
  const KvType kept = kv_type_from_name(options.text("kv-dtype")).value(), own = kv_type_of(computed);
  if (kept < own)
    throw Error(ErrorKind::usage,
                "--kv-dtype {}: keys and values are computed in {}, no more of them can be kept; leave it out",
                name_of(kept), name_of(own));
  return kept == own ? std::nullopt : std::optional(kept);
}

MemoryBudget memory_budget(const Options& options) {
  const int64_t program = program_bytes(), resident = read_process_memory().resident_bytes;
  if (options.has("memory")) {
    const int64_t given = options.integer("memory");
    return {std::max<int64_t>(0, given - program),
            fmt::format("--memory {} less {} of the program itself", format_bytes(given), format_bytes(program)),
            program};
  }
  return {std::max<int64_t>(0, read_memory_facts().available_bytes - (program - resident)), "free on this machine"};
}

bool copy_pays(int64_t tokens, const MemoryFacts& memory, const InferenceFit& fit) {
  // What the copy costs and gains: --weights in benchmarks/reports/inference_xeon2_2026-11-22.md.
  const bool pages = memory.transparent_huge_pages == "always" || memory.transparent_huge_pages == "madvise";
  return tokens >= kTokensToCopyFor && pages && memory.available_bytes - fit.total() >= fit.weights;
}

namespace {

std::string text_or(const Options& options, std::string_view name, std::string_view otherwise) {
  const bool takes = std::ranges::any_of(options.values(), [&](const auto& option) { return option.first == name; });
  return takes ? options.text(name) : std::string(otherwise);
}

}  // namespace

std::string weights_option(const Options& options) { return text_or(options, "weights", "auto"); }
bool in_integers(const Options& options) { return text_or(options, "arithmetic", "kept") == "int8"; }

CodedBytes coded_for_integers(const ModelDescription& model) {
  if (!holds_coded(model.spec, model.dir.path))
    throw Error(ErrorKind::usage,
                "--arithmetic int8: multiplies coded weights, {} holds none; tern quantize writes some",
                model.dir.path);
  CodedBytes coded = coded_bytes(model.spec, model.dir.path, model.dtype);
  if (coded.empty())
    throw Error(ErrorKind::usage,
                "--arithmetic int8: no matrix of {} stays as it is coded there, computed in {} by {}; --dtype f32, or "
                "leave it out",
                model.dir.path, name_of(model.dtype), name_of(active_isa()));
  return coded;
}

CodedBytes stays_coded(const Options& options, const ModelDescription& model, const InferenceNeeds& needs,
                       const MemoryBudget& budget) {
  const std::string how = weights_option(options);
  if (in_integers(options)) {
    if (how == "copied")
      throw Error(ErrorKind::usage,
                  "--weights copied: decodes what --arithmetic int8 multiplies as it is coded; leave one of them out");
    return coded_for_integers(model);
  }
  if (how == "copied") return {};
  if (how == "auto") return coded_to_fit(model, needs, budget);
  CodedBytes coded = coded_bytes(model.spec, model.dir.path, model.dtype);
  if (coded.empty() && holds_coded(model.spec, model.dir.path))
    throw Error(ErrorKind::usage,
                "--weights mapped: no matrix of this file can stay as it is coded there, computed in {} by {}: none is "
                "shorter than its numbers in {}, or the kernels read only those; leave --weights out",
                name_of(model.dtype), name_of(active_isa()), name_of(model.dtype));
  return coded;
}

WeightsPlace weights_in(const Options& options, const ModelDescription& model, const InferenceFit& fit, int64_t tokens,
                        const CodedBytes& coded) {
  if (!coded.empty()) return {in_integers(options) ? WeightsIn::coded_int8 : WeightsIn::coded_file, "coded"};
  constexpr WeightsPlace kMapped{WeightsIn::mapped_file, "mapped"}, kCopied{WeightsIn::own_memory, "copied"};
  const std::string how = weights_option(options);
  if (holds_coded(model.spec, model.dir.path)) return {WeightsIn::own_memory, "packed"};
  if (!reads_in_place(model.spec, model.dir.path, model.dtype)) {
    if (how != "auto")
      throw Error(ErrorKind::usage,
                  "--weights {}: the weights are packed here: only bf16 kernels on tiles (amx_bf16) read them as they "
                  "lie, from safetensors in bf16; computed in {} by {}; leave --weights out",
                  how, name_of(model.dtype), name_of(active_isa()));
    return {WeightsIn::own_memory, "packed"};
  }
  if (how != "auto") return how == "mapped" ? kMapped : kCopied;
  return copy_pays(tokens, read_memory_facts(), fit) ? kCopied : kMapped;
}

ModelDescription described_model(const Options& options) {
  ModelDescription model = describe_model(options.positional("MODEL"), dtype_option(options));
  if (options.has("adapter")) take_adapter(model, options.text("adapter"));
  return model;
}

void require_finite_weights(const ModelDescription& model) { require_finite(model.dir.weights); }

void tell_notes(const ModelDescription& model) { tell_notes(model.notes); }
void tell_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) log_info("{}", note);
}

std::string read_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error(ErrorKind::bad_file, "{}: a directory; expected a file of text", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::bad_file, "{}: cannot be read; is the path right?", path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw Error(ErrorKind::bad_file, "{}: reading stopped half-way; is it a regular file?", path);
  return text;
}

void refuse_encoder(const ModelDescription& model, std::string_view verb) {
  refuse_encoder(model.spec, model.dir.path, verb);
}
void refuse_encoder(const ModelSpec& spec, std::string_view path, std::string_view verb) {
  if (spec.predicts) return;
  throw Error(ErrorKind::usage,
              "{}: {} is an encoder ({}), which has no next token; tern embed makes vectors of texts with it", verb,
              path, spec.family);
}

void tell_invalid_utf8(std::string_view text) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos)
    log_info("byte {} of the text is not UTF-8; such bytes are read as U+FFFD", bad);
}

std::vector<int32_t> encode_at_most(const Tokenizer& tokenizer, std::string_view text, size_t most, bool& whole) {
  constexpr size_t kPartBytes = size_t{1} << 20;
  std::vector<int32_t> tokens;
  for (whole = false; !text.empty() && tokens.size() <= most;) {
    TextCut cut{text.size(), text.size()};
    if (text.size() > kPartBytes)
      if (const TextCut found = tokenizer.find_cut(text, kPartBytes); found.end > 0) cut = found;
    tokenizer.encode_into(text.substr(0, cut.end), {.add_special = false}, tokens);
    text.remove_prefix(cut.next);
  }
  whole = text.empty() && tokens.size() <= most;
  tokens.resize(std::min(tokens.size(), most));
  return tokens;
}

bool PackLine::update(void* self, int64_t bytes_done, int64_t bytes_total) {
  auto& me = *static_cast<PackLine*>(self);
  constexpr int64_t kKiB = 1024;
  if (stop_requested()) return false;
  if (bytes_total != me.total_) me.finish();  // the next file
  me.total_ = bytes_total;
  if (!me.line_) {
    if (seconds_between(me.begin_ns_, real_clock().now_ns()) < 1) return true;
    me.line_ = std::make_unique<Progress>("tokenize", bytes_total / kKiB, real_clock(), ProgressOptions{}, "KiB");
  }
  me.line_->update(bytes_done / kKiB);
  return true;
}

void PackLine::finish() {
  if (line_) line_->finish();
  line_.reset();
}

void print_out(std::string_view given) {
  const std::string text = text_for(STDOUT_FILENO, given);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(ErrorKind::does_not_fit, "standard output cannot be written; is the disk full or the reader gone?");
}

void print_json(const Json& json) { print_out(dump_json(json, 2) + "\n"); }

}  // namespace tern
