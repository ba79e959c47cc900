// What --method, --rank and their kin say of an adapter.
#include <string>

#include "base/error.h"
#include "base/options.h"
#include "model/adapter_files.h"
#include "model/initial_weights.h"
#include "model/taken_factors.h"
#include "train/adapter_targets.h"
#include "train/settings_impl.h"

namespace tern {
namespace {

// --save-modules: what is trained as a whole beside the adapters.
void take_saved_modules(const Options& o, AdapterSettings& a) {
  a.config.saved = listed_names(o, "save-modules");
  if (a.config.saved.empty()) return;
  const auto refuse = [](std::string_view with, std::string_view why) {
    throw Error(ErrorKind::usage, "--save-modules: with {} {}; leave one of the two out", with, why);
  };
  if (o.has("stream")) refuse("--stream", "tasks change matrices of layers alone");
  if (learns_pairs(o)) refuse("--method dpo", "the reference is the model without its branches, which stays as it is");
  if (const std::string method = o.text("method"); method == "qalora" || method == "qablora")
    refuse("--method " + method, "an adapter merges into offsets, and whole modules do not");
  if (takes_factors(a.init)) refuse("--init " + o.text("init"), "the adapter is written beside the model as it came");
}

// What --pool and --repeat are where they are not given. {1, 1}: a method without them.
struct Balance {
  int64_t pool = 1, repeat = 1;
};
Balance balance_of(const std::string& method) {
  if (method == "qalora") return {64, 1};
  if (method == "qblora") return {2, 2};
  if (method == "qablora") return {64, 2};
  return {};
}

void take_balance(const Options& o, AdapterSettings& a) {
  const std::string method = o.text("method");
  const Balance usual = balance_of(method);
  const auto take = [&](const char* name, int64_t usually, const char* others) {
    if (!o.given(name)) return usually;
    if (usually == 1)
      throw Error(ErrorKind::usage, "--{}: says nothing to --method {}; leave it out, or choose --method {}", name,
                  method, others);
    return o.integer(name);
  };
  a.pool = take("pool", usual.pool, "qalora, qblora or qablora");
  a.repeat = take("repeat", usual.repeat, "qblora or qablora");
}

// An adapter that is there: its configuration says what it is.
void begin_from(const Options& o, AdapterSettings& a) {
  for (const char* name : {"rank", "alpha", "target", "save-modules", "init"})
    if (o.given(name))
      throw Error(ErrorKind::usage, "--{}: the adapter in --begin {} says it itself; leave it out", name,
                  o.text("begin"));
  if (const std::string method = o.text("method"); method != "lora" && method != "dpo")
    throw Error(ErrorKind::usage,
                "--method {}: the adapter in --begin {} says itself what it is; leave one of the two out", method,
                o.text("begin"));
  const double dropout = a.config.dropout;
  a.begin = o.text("begin");
  a.config = read_peft_config(peft_config_file(a.begin));
  if (o.given("adapter-dropout")) a.config.dropout = dropout;
}

}  // namespace

bool learns_pairs(const Options& o) { return o.knows("dpo-beta") && o.text("method") == "dpo"; }

std::optional<AdapterSettings> adapter_from(const Options& o) {
  if (!o.knows("rank")) return {};
  AdapterSettings a;
  a.config.targets = targets_from(o);
  a.config.rank = o.integer("rank");
  const bool given = o.text("method") == "inflora" || o.text("method") == "gainlora";
  const double usual = given ? 1 : 2;  // times the rank
  a.config.alpha = o.has("alpha") ? o.real("alpha") : usual * static_cast<double>(a.config.rank);
  if (!(a.config.alpha > 0)) throw Error(ErrorKind::usage, "--alpha: {}; expected more than 0", a.config.alpha);
  a.config.rank_stabilized = o.text("method") == "rslora";
  a.config.magnitude = o.text("method") == "dora";
  a.config.dropout = o.real("adapter-dropout");
  if (!(a.config.dropout < 1))
    throw Error(ErrorKind::usage, "--adapter-dropout: {} would leave nothing; expected less than 1", a.config.dropout);
  take_balance(o, a);
  a.elastic = o.text("method") == "irqlora";
  a.init = value_named<AdapterInit>("init", o.text("init"),
                                    {{"true", AdapterInit::kaiming},
                                     {"gaussian", AdapterInit::gaussian},
                                     {"orthogonal", AdapterInit::orthogonal},
                                     {"pissa", AdapterInit::pissa},
                                     {"olora", AdapterInit::olora}});
  if (takes_factors(a.init) && o.text("method") != "lora" && o.text("method") != "rslora")
    throw Error(
        ErrorKind::usage,
        "--init {}: takes a part of the weights for A and B of --method lora or rslora, not of {}; leave it out",
        o.text("init"), o.text("method"));
  if (a.init == AdapterInit::orthogonal && a.config.rank % 2 != 0)
    throw Error(ErrorKind::usage,
                "--rank: {}; --init orthogonal gives half of the directions to A, half to B: an even rank",
                a.config.rank);
  take_saved_modules(o, a);
  if (learns_pairs(o)) {
    a.preference = o.real("dpo-beta");
    if (!(*a.preference > 0)) throw Error(ErrorKind::usage, "--dpo-beta: {}; expected more than 0", *a.preference);
  } else if (o.given("dpo-beta")) {
    throw Error(ErrorKind::usage, "--dpo-beta: only --method dpo has it; leave it out");
  }
  a.b_rate = o.real("lora-plus-ratio");
  if (!(a.b_rate > 0)) throw Error(ErrorKind::usage, "--lora-plus-ratio: {}; expected more than 0", a.b_rate);
  if (o.has("begin")) begin_from(o, a);
  a.config.base_model = o.positional("MODEL");
  return a;
}

}  // namespace tern
