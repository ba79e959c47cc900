#include "apps/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "apps/loopback.h"
#include "apps/profile_buffers.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/rounding.h"
#include "base/units.h"

namespace tern {
namespace {

std::string name_of_figure(const ProfileFigure& f) {
  const std::string dtype(name_of(f.dtype));
  switch (f.kind) {
    case FigureKind::product:
      return fmt::format("product {} {} {}×{}×{}", dtype, f.use == ProductUse::any ? "forward" : name_of(f.use), f.m,
                         f.n, f.k);
    case FigureKind::attention_forward:
      return fmt::format("attention forward {} of {}, heads of {}", dtype, f.m, f.n);
    case FigureKind::attention_backward:
      return fmt::format("attention backward {} of {}, heads of {}", dtype, f.m, f.n);
    case FigureKind::prefill:
      return fmt::format("attention prompt {} of {}, heads of {}", dtype, f.m, f.n);
    case FigureKind::decode:
      return fmt::format("attention decode {} of {}, heads of {}", dtype, f.m, f.n);
    case FigureKind::elementwise:
      return "norm and activation " + dtype;
    case FigureKind::calls:
      return "engine calls";
    case FigureKind::sampling:
      return "token from its logits";
    case FigureKind::update:
      return "optimizer step " + dtype;
    case FigureKind::weight_read:
      return fmt::format("weights {} read from {}", dtype, format_bytes(f.m));
    case FigureKind::mapped_read:
      return fmt::format("weights {} read from {} of a file", dtype, format_bytes(f.m));
    case FigureKind::memory_read:
      return "memory read";
    case FigureKind::memory_copy:
      return "memory copy";
    case FigureKind::disk_read:
      return "disk read";
    case FigureKind::disk_write:
      return "disk write";
    case FigureKind::loopback:
      return "loopback";
    case FigureKind::loopback_calls:
      return "loopback messages";
    case FigureKind::all_reduce:
      return fmt::format("all-reduce of {}", format_bytes(f.m));
    case FigureKind::all_gather:
      return fmt::format("all-gather of {}", format_bytes(f.m));
    case FigureKind::reduce_scatter:
      return fmt::format("reduce-scatter of {}", format_bytes(f.m));
    case FigureKind::all_to_all:
      return fmt::format("all-to-all of {}", format_bytes(f.m));
  }
  return "";
}

// In memory as an arena gives it, and so much of it as caches do not hold, if there may be as much.
BenchTask copy_task(int64_t most) {
  const int64_t half = std::min(std::max<int64_t>(beyond_caches() / 2, int64_t{128} << 20), most / 2);
  const auto buffers = std::make_shared<ProfileBuffers>();
  const std::span<float> from = buffers->numbers<float>(half / 4), to = buffers->room<float>(half / 4);
  return {.unit = "B/s", .once = [=, held = buffers] {
            return rate_of(static_cast<double>(half), kPointSeconds,
                           [&] { std::memcpy(to.data(), from.data(), static_cast<size_t>(half)); });
          }};
}

// A quick profile does not wait for more memory than this to be filled.
constexpr int64_t kMostOfQuick = int64_t{3} << 30;

}  // namespace

std::string memory_past_caches(const ProfileSettings& settings, int64_t left, int64_t beyond, int64_t program) {
  const int64_t wanted = 2 * beyond;  // as many bytes again are copied
  if (settings.quick && wanted > kMostOfQuick) return "a profile without --quick, and with more --memory,";
  constexpr int64_t kMiB = int64_t{1} << 20;  // 8: the program's own share differs from one start to another
  const int64_t each = settings.memory_bytes + settings.memory_bytes / 8 + 3 * std::max<int64_t>(0, wanted - left);
  return fmt::format("--memory {}MiB or more{}", ceil_div(settings.ranks * each + program, kMiB) + 8,
                     settings.ranks > 1 ? fmt::format(", of all {} ranks together,", settings.ranks) : "");
}

void ProfileTasks::add(ProfileFigure figure, BenchTask task) {
  task.name = name_of_figure(figure);
  figures.push_back(figure);
  tasks.push_back(std::move(task));
}

ProfileTasks profile_tasks(const ProfileSettings& settings) {
  constexpr int64_t kLeast = int64_t{2816} << 20;
  constexpr int64_t kAtWork = int64_t{256} << 20;  // what products and heads take besides while they run
  if (settings.memory_bytes < kLeast)
    throw Error(ErrorKind::does_not_fit,
                "profile: {} of memory are left to the buffers{}, which take {}; give --memory {}GiB",
                format_bytes(settings.memory_bytes), settings.ranks > 1 ? " of each rank" : "", format_bytes(kLeast),
                3 * settings.ranks);
  ProfileTasks out;
  const int64_t before = read_process_memory().resident_bytes, program = program_bytes();
  add_product_tasks(settings, out);
  add_kernel_tasks(settings, out);
  const int64_t held = read_process_memory().resident_bytes - before;
  const int64_t spare = settings.memory_bytes - held - kAtWork;
  const int64_t left = settings.quick ? std::min(spare, kMostOfQuick) : spare;
  constexpr int64_t kReads = int64_t{256} << 20;  // the least for what is read and copied
  if (left < kReads)
    throw Error(ErrorKind::does_not_fit,
                "profile: {} of {} are left for reads and copies, which take {}; raise --memory", format_bytes(left),
                format_bytes(settings.memory_bytes), format_bytes(kReads));
  const BenchSettings limits{.disk = settings.disk,
                             .memory_bytes = 2 * left,
                             .more_memory = memory_past_caches(settings, spare, beyond_caches(), program)};
  for (BenchTask& task : limit_tasks(limits, out.notes)) {
    if (task.name == "memory read")
      out.add({.kind = FigureKind::memory_read}, std::move(task));
    else if (task.name == "disk read")
      out.add({.kind = FigureKind::disk_read}, std::move(task));
    else if (task.name == "disk write")
      out.add({.kind = FigureKind::disk_write}, std::move(task));
  }
  out.add({.kind = FigureKind::memory_copy}, copy_task(settings.quick ? kReads : left / 2));
  if (settings.ranks > 1) return out;
  out.add({.kind = FigureKind::loopback}, loopback_bandwidth_task());
  out.add({.kind = FigureKind::loopback_calls}, loopback_call_task());
  return out;
}

}  // namespace tern
