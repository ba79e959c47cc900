#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/adapter_base.h"
#include "apps/common.h"
#include "apps/threads.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process_memory.h"
#include "base/system.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "base/units.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "kernels/dispatch.h"

namespace tern {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[16];
  return std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &parts)) > 0 ? text : "";
}

int apply_threads(const Options& options, int64_t ranks) {
  const int64_t wished = options.has("threads") ? options.integer("threads") : 0;
  if (const std::string turns = threads_that_take_turns(ranks, wished, read_cpu_facts().num_usable); !turns.empty())
    log_warn("{}: {}", options.value("threads").where, turns);
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

ModelDescription described_model(const Options& options) {
  ModelDescription model = describe_model(options.positional("MODEL"), dtype_option(options));
  if (options.has("adapter")) {
    take_adapter(model, options.text("adapter"));
    warn_of_other_base(model.dir.name, options.text("adapter"));
  }
  return model;
}

void require_finite_weights(const ModelDescription& model) { require_finite(model.dir.weights); }

void tell_notes(const ModelDescription& model) { tell_notes(model.notes); }
void tell_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) log_info("{}", note);
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

void print_out(std::string_view given) {
  const std::string text = text_for(STDOUT_FILENO, given);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(ErrorKind::does_not_fit, "standard output cannot be written; is the disk full or the reader gone?");
}

void print_json(const Json& json) { print_out(dump_json(json, 2) + "\n"); }

}  // namespace tern
