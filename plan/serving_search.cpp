// Which layout, how many copies, how many users: every legal tensor × stages, with closed forms for the rest.
#include "plan/serving_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "hardware/machine.h"
#include "plan/serving_turns.h"

namespace tern {
namespace {

// More sequences than any engine schedules at once.
constexpr int64_t kMostUsers = 1 << 16;

double seconds(int64_t ps) { return static_cast<double>(ps) * 1e-12; }

// From a user's request to the next one.
double cycle_s(const InferenceJob& job, double ttft_s, double tpot_s) {
  return std::max(1e-12, ttft_s + std::max(job.mean_answer() - 1, 0.0) * tpot_s);
}

struct Problem {
  const ModelSpec& spec;
  const InferenceJob& job;
  const Machine& machine;
  mutable std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> prompts = {};

  // Made once for each layout: users and what lies where do not change it.
  const std::vector<int64_t>& prompt_ps(const ServingLayout& layout) const {
    const auto [at, fresh] = prompts.try_emplace({layout.tensor, layout.stages});
    if (fresh) at->second = prompt_compute_ps(spec, job, machine, layout);
    return at->second;
  }
  // Weights or keys and values first on the device, whichever decodes faster.
  ServingRole role(const ServingLayout& layout, int64_t copies, int64_t users) const {
    ServingRole best;
    for (const bool kv_first : {false, true}) {
      ServingRole r{layout, copies, users, serving_memory(spec, job, machine, layout, users, kv_first), {}};
      if (r.memory.fits) r.times = serving_times(spec, job, machine, layout, r.memory, users, prompt_ps(layout));
      const bool spilled = r.memory.weights_on[0] + r.memory.kv_on[0] < r.memory.weights + r.memory.kv;
      if (!kv_first || (r.memory.fits && r.times.decode_ps < best.times.decode_ps)) best = r;
      if (!spilled || !r.memory.fits) break;
    }
    return best;
  }
  int64_t most_copies(const ServingLayout& layout) const {
    const int64_t node = machine.node.num_devices, d = layout.devices();
    if (d <= node) return machine.num_nodes * (node / d);
    return machine.num_nodes / ((d + node - 1) / node);
  }
  bool meets(const ServingPlan& p) const {
    return (job.ttft_s == 0 || p.ttft_s <= job.ttft_s) && (job.tpot_s == 0 || p.tpot_s <= job.tpot_s);
  }
  ServingPlan shared(const ServingLayout& layout, int64_t copies, int64_t users) const {
    ServingPlan p{.node = machine.node.name, .users = users};
    p.decode = p.prefill = role(layout, copies, (users + copies - 1) / copies);
    take_turns(job, p);
    return p;
  }
  ServingPlan apart(const ServingRole& prefill, const ServingRole& decode, int64_t users) const {
    ServingPlan p{.node = machine.node.name, .split = true, .decode = decode, .prefill = prefill, .users = users};
    p.ttft_s = seconds(prefill.times.high_prefill_ps), p.tpot_s = seconds(decode.times.decode_ps);
    p.mean_ttft_s = seconds(prefill.times.prefill_ps);
    finish(p);
    return p;
  }
  void finish(ServingPlan& p) const {
    p.requests_per_s = static_cast<double>(p.users) / cycle(p.mean_ttft_s, p.tpot_s);
  }
  double cycle(double ttft_s, double tpot_s) const { return cycle_s(job, ttft_s, tpot_s); }
  // The most users of a copy for which `good` holds, which more users never make better; 0: none.
  template <class Good>
  int64_t most_users(const Good& good) const {
    int64_t low = 0, high = 1;
    while (high <= kMostUsers && good(high)) low = high, high *= 2;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (good(middle) ? low : high) = middle;
    }
    return std::min(low, kMostUsers);
  }
};

// More users first, or the faster token where their number was asked for; then fewer devices.
bool better(const InferenceJob& job, const ServingPlan& a, const ServingPlan& b) {
  const auto devices = [](const ServingPlan& p) { return p.decode.devices() + (p.split ? p.prefill.devices() : 0); };
  if (job.users == 0 && a.users != b.users) return a.users > b.users;
  if (job.users > 0 && a.tpot_s != b.tpot_s) return a.tpot_s < b.tpot_s;
  if (devices(a) != devices(b)) return devices(a) < devices(b);
  return a.tpot_s < b.tpot_s;
}

struct Search {
  const Problem& problem;
  ServingAnswer& answer;
  std::optional<ServingPlan> shared, apart;

  void keep(std::optional<ServingPlan>& best, const ServingPlan& p) const {
    if (!best || better(problem.job, p, *best)) best = p;
  }

  void look_at_shared(const ServingLayout& layout, int64_t copies) {
    if (problem.job.users > 0) {
      const ServingPlan p = problem.shared(layout, std::min(copies, problem.job.users), problem.job.users);
      if (!p.decode.memory.fits) return;
      note(p);
      if (problem.meets(p)) keep(shared, p);
      return;
    }
    const int64_t each = problem.most_users([&](int64_t users) {
      const ServingPlan p = problem.shared(layout, 1, users);
      return p.decode.memory.fits && problem.meets(p);
    });
    if (each > 0) return keep(shared, problem.shared(layout, copies, each * copies));
    const ServingPlan one = problem.shared(layout, 1, 1);
    if (one.decode.memory.fits) note(one);
  }

  // Prompts on copies of `reader`, users decoded on `copies` of a layout, of so many devices in all.
  void look_at_split(const ServingLayout& layout, const ServingRole& reader) {
    const InferenceJob& job = problem.job;
    const int64_t devices = problem.machine.num_devices();
    const double prompt = seconds(reader.times.prefill_ps);
    if (job.ttft_s > 0 && seconds(reader.times.high_prefill_ps) > job.ttft_s) return;
    const auto fits = [&](int64_t users) {
      const ServingRole r = problem.role(layout, 1, users);
      return r.memory.fits && (job.tpot_s == 0 || seconds(r.times.decode_ps) <= job.tpot_s);
    };
    const int64_t room = problem.most_users(fits);
    if (room == 0) return;
    const int64_t most = std::min(problem.most_copies(layout), (devices - reader.layout.devices()) / layout.devices());
    for (int64_t copies = most; copies >= 1; --copies) {
      const int64_t wanted = job.users > 0 ? std::min(job.users, room * copies) : room * copies;
      if (job.users > 0 && wanted < job.users) return;
      ServingRole decode = problem.role(layout, copies, (wanted + copies - 1) / copies);
      // Readers keep up with the requests that these users make.
      const double rate = static_cast<double>(wanted) / problem.cycle(prompt, seconds(decode.times.decode_ps));
      ServingRole readers = reader;
      readers.copies = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(rate * prompt - 1e-9)));
      const int64_t left = devices - copies * layout.devices();
      int64_t users = wanted;
      if (readers.devices() > left) {
        if (job.users > 0) continue;
        readers.copies = left / reader.layout.devices();
        // Fewer users are served faster and ask more often, so this takes a few rounds; each has fewer users.
        for (bool keeps_up = false; !keeps_up && users > 0;) {
          decode = problem.role(layout, copies, (users + copies - 1) / copies);
          const double served = static_cast<double>(readers.copies) / prompt;
          const double asked = served * problem.cycle(prompt, seconds(decode.times.decode_ps));
          keeps_up = static_cast<double>(users) <= asked;
          if (!keeps_up) users = std::min(users - 1, static_cast<int64_t>(asked));
        }
        if (users < 1) continue;
      }
      const ServingPlan p = problem.apart(readers, decode, users);
      if (problem.meets(p)) keep(apart, p);
      if (users == wanted || copies < most - 512) return;  // fewer copies only take users away
    }
  }

  // The best of all groups of nodes; `other`: the best that parts roles otherwise.
  void keep_in_answer() const {
    for (const auto* found : {&shared, &apart}) {
      if (!*found) continue;
      if (!answer.found || better(problem.job, **found, answer.plan)) {
        if (answer.found && answer.plan.split != (*found)->split) answer.other = answer.plan;
        answer.plan = **found, answer.found = true;
      } else if (answer.plan.split != (*found)->split &&
                 (!answer.other || better(problem.job, **found, *answer.other))) {
        answer.other = **found;
      }
    }
  }

  void note(const ServingPlan& p) const {
    if (answer.best_ttft_s == 0 || p.ttft_s < answer.best_ttft_s) answer.best_ttft_s = p.ttft_s;
    if (answer.best_tpot_s == 0 || p.tpot_s < answer.best_tpot_s) answer.best_tpot_s = p.tpot_s;
  }
};

std::vector<ServingLayout> layouts_of(const Problem& problem) {
  const int64_t devices = problem.machine.num_devices();
  std::vector<ServingLayout> layouts;
  for (int64_t t = 1; t <= std::min(problem.job.most_tensor, devices); ++t)
    for (int64_t p = 1; p <= std::min(problem.job.most_stages, devices / t); ++p)
      if (const ServingLayout l{t, p};
          why_illegal(problem.spec, problem.machine, l).empty() && problem.most_copies(l) > 0)
        layouts.push_back(l);
  return layouts;
}

}  // namespace

void take_turns(const InferenceJob& job, ServingPlan& p) {
  const int64_t each = p.decode.users;
  const double prompt = seconds(p.prefill.times.prefill_ps), token = seconds(p.decode.times.decode_ps);
  const double between = each > 1 ? token : 0;  // a decoding that is under way
  p.ttft_s = seconds(p.prefill.times.high_prefill_ps) + between, p.mean_ttft_s = prompt + between;
  // A prompt of others comes between, once for each answer of each of them.
  p.tpot_s = token + static_cast<double>(each - 1) * prompt / std::max(job.mean_answer(), 1.0);
  p.requests_per_s = static_cast<double>(p.users) / cycle_s(job, p.mean_ttft_s, p.tpot_s);
}

ServingAnswer plan_serving(const ModelSpec& spec, const Cluster& cluster, const InferenceJob& job) {
  for (const Unit& unit : spec.units)
    if (std::holds_alternative<BridgeSpec>(unit.spec))
      throw Error(ErrorKind::usage, "plan: inference of models with an encoder beside the decoder is not planned");
  if (!spec.predicts) throw Error(ErrorKind::usage, "plan: an encoder has no next token to plan");
  ServingAnswer answer;
  bool any_fits = false, first = true;
  for (int g = 0; g < static_cast<int>(cluster.groups.size()); ++g) {
    const Machine machine = machine_of(cluster, g);
    const Problem problem{spec, job, machine};
    Search search{problem, answer, {}, {}};
    const std::vector<ServingLayout> layouts = layouts_of(problem);
    std::optional<ServingRole> reader;
    for (const ServingLayout& layout : layouts) {
      ++answer.layouts;
      const ServingRole one = problem.role(layout, 1, 1);
      const int64_t users =
          job.users > 0 ? (job.users + problem.most_copies(layout) - 1) / problem.most_copies(layout) : 1;
      const ServingMemory wanted = users == 1 ? one.memory : serving_memory(spec, job, machine, layout, users);
      if (first || (wanted.fits && !answer.nearest.fits) ||
          (!wanted.fits && !answer.nearest.fits && wanted.missing_bytes < answer.nearest.missing_bytes))
        answer.nearest = wanted, answer.nearest_layout = layout, first = false;
      if (!one.memory.fits) continue;
      any_fits |= wanted.fits;
      search.look_at_shared(layout, problem.most_copies(layout));
      // The reader that spends the least device time on a prompt, of those in time.
      if (job.ttft_s > 0 && seconds(one.times.high_prefill_ps) > job.ttft_s) continue;
      const auto spent = [](const ServingRole& r) {
        return static_cast<double>(r.times.prefill_ps) * static_cast<double>(r.layout.devices());
      };
      if (!reader || spent(one) < spent(*reader)) reader = one;
    }
    if (reader && machine.num_devices() > 1 && (job.tpot_s > 0 || job.ttft_s > 0))
      for (const ServingLayout& layout : layouts)
        if (layout.devices() + reader->layout.devices() <= machine.num_devices()) search.look_at_split(layout, *reader);
    search.keep_in_answer();
  }
  answer.memory = !any_fits;
  if (answer.found)
    for (int g = 0; g < static_cast<int>(cluster.groups.size()); ++g) {
      const Machine machine = machine_of(cluster, g);
      if (machine.node.name != answer.plan.node) continue;
      const Problem problem{spec, job, machine};
      const ServingLayout& layout = answer.plan.decode.layout;
      answer.most_users = answer.plan.decode.copies * problem.most_users([&](int64_t users) {
        InferenceJob resident = job;
        resident.spill = false;
        return serving_memory(spec, resident, machine, layout, users).fits;
      });
    }
  return answer;
}

}  // namespace tern
