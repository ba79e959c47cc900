// Ranks at work side by side, and what they do together.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "apps/profile.h"
#include "apps/rank_team.h"
#include "tensor/arena.h"

namespace tern {
namespace {

// Of the whole tensor: what a step sends of a small model's layer, and of a large one's.
std::vector<int64_t> message_sizes(bool quick) {
  if (quick) return {int64_t{16} << 10, int64_t{512} << 10, int64_t{8} << 20};
  return {int64_t{4} << 10, int64_t{64} << 10, int64_t{1} << 20, int64_t{8} << 20, int64_t{32} << 20};
}

// What a rank sends from and receives in.
struct ExchangeRoom {
  Arena arena;
  Tensor from, to;
  ExchangeRoom(int64_t bytes, int ranks)
      : from(arena.zeros(DType::f32, {ranks, bytes / 4 / ranks}, MemoryClass::staging)),
        to(arena.zeros(DType::f32, {ranks, bytes / 4 / ranks}, MemoryClass::staging)) {}
};

// The first `bytes` of it, a row for each rank.
Tensor rows_of_ranks(const Tensor& all, int64_t bytes, int ranks) {
  const int64_t each = bytes / 4 / ranks;
  return all.reshaped({all.count()}).rows_view(0, each * ranks).reshaped({ranks, each});
}

void exchange(FigureKind kind, const ExchangeRoom& room, int64_t bytes, Comm& comm) {
  const Tensor from = rows_of_ranks(room.from, bytes, comm.size()), to = rows_of_ranks(room.to, bytes, comm.size());
  switch (kind) {
    case FigureKind::all_gather:
      return comm.all_gather(std::span(&from, 1));
    case FigureKind::reduce_scatter:
      return comm.reduce_scatter_sum(std::span(&from, 1));
    case FigureKind::all_to_all: {
      std::vector<Tensor> send, receive;
      for (int r = 0; r < comm.size(); ++r)
        send.push_back(from.rows_view(r, r + 1)), receive.push_back(to.rows_view(r, r + 1));
      return comm.all_to_all(send, receive);
    }
    default:
      return comm.all_reduce_sum(std::span(&from, 1));
  }
}

// Bytes/s of the whole tensor. All ranks make as many calls; how many follows from the time of those before.
BenchTask collective_task(const std::shared_ptr<RankTeam>& team,
                          const std::shared_ptr<std::vector<std::unique_ptr<ExchangeRoom>>>& rooms, FigureKind kind,
                          int64_t bytes) {
  const auto calls = std::make_shared<int64_t>(1);
  return {.unit = "B/s", .once = [=] {
            double seconds = 0;
            const int64_t number = *calls;
            team->run([&](Comm& comm) {
              const ExchangeRoom& room = *(*rooms)[static_cast<size_t>(comm.rank())];
              comm.barrier();
              const int64_t begin = real_clock().now_ns();
              for (int64_t call = 0; call < number; ++call) exchange(kind, room, bytes, comm);
              comm.barrier();
              if (comm.rank() == 0) seconds = seconds_between(begin, real_clock().now_ns());
            });
            const double wished = 2 * kPointSeconds / seconds * static_cast<double>(number);
            *calls = static_cast<int64_t>(std::clamp(wished, 1.0, 1000.0));
            return static_cast<double>(bytes) * static_cast<double>(number) / seconds;
          }};
}

void add_collectives(const ProfileSettings& s, const std::shared_ptr<RankTeam>& team, ProfileTasks& out) {
  const std::vector<int64_t> sizes = message_sizes(s.quick);
  const auto rooms = std::make_shared<std::vector<std::unique_ptr<ExchangeRoom>>>();
  for (int r = 0; r < s.ranks; ++r) rooms->push_back(std::make_unique<ExchangeRoom>(sizes.back(), s.ranks));
  for (const FigureKind kind :
       {FigureKind::all_reduce, FigureKind::all_gather, FigureKind::reduce_scatter, FigureKind::all_to_all})
    for (const int64_t bytes : sizes)
      out.add({.kind = kind, .m = bytes / 4 / s.ranks * 4 * s.ranks}, collective_task(team, rooms, kind, bytes));
}

// Whether the memory binds it, which ranks share whether they have CPUs or not.
bool is_of_memory(FigureKind kind) {
  return kind == FigureKind::memory_read || kind == FigureKind::memory_copy || kind == FigureKind::weight_read ||
         kind == FigureKind::mapped_read || kind == FigureKind::elementwise || kind == FigureKind::update;
}

}  // namespace

BenchTask beside_each_other(const std::shared_ptr<RankTeam>& team, std::vector<BenchTask> of_ranks, double at_once,
                            FigureKind kind) {
  BenchTask task = of_ranks.front();
  const double measured = std::floor(at_once), all = static_cast<double>(of_ranks.size());
  const double share = (is_of_memory(kind) ? measured : at_once) / all;
  of_ranks.resize(static_cast<size_t>(measured));
  task.once = [team, of_ranks = std::move(of_ranks), share] {
    std::vector<double> rates(of_ranks.size());
    team->run([&](Comm& comm) {
      const auto rank = static_cast<size_t>(comm.rank());
      comm.barrier();
      if (rank < rates.size()) rates[rank] = of_ranks[rank].once();
    });
    return share * std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
  };
  return task;
}

bool is_collective(FigureKind kind) {
  return kind == FigureKind::all_reduce || kind == FigureKind::all_gather || kind == FigureKind::reduce_scatter ||
         kind == FigureKind::all_to_all;
}

double ranks_at_once(int ranks, int threads, int cpus) {
  return cpus == 0 ? ranks : std::clamp(static_cast<double>(cpus) / threads, 1.0, static_cast<double>(ranks));
}

ProfileTasks profile_tasks_of_ranks(const ProfileSettings& settings) {
  const auto team = std::make_shared<RankTeam>(settings.ranks, settings.threads, settings.links);
  std::vector<ProfileTasks> lists(static_cast<size_t>(settings.ranks));
  for (int rank = 0; rank < settings.ranks; ++rank) {  // one after the other: each looks at what the process has taken
    ProfileSettings own = settings;
    own.memory_bytes = settings.memory_bytes / settings.ranks;
    if (rank > 0) own.disk.clear();
    team->run([&](Comm& comm) {
      if (comm.rank() == rank) lists[static_cast<size_t>(rank)] = profile_tasks(own);
    });
  }
  ProfileTasks out;
  out.notes = lists[0].notes;
  const double at_once = ranks_at_once(settings.ranks, settings.threads, settings.cpus);
  size_t next = 0;  // of the ranks that leave the disk alone
  for (size_t k = 0; k < lists[0].tasks.size(); ++k) {
    const ProfileFigure& figure = lists[0].figures[k];
    if (figure.kind == FigureKind::disk_read || figure.kind == FigureKind::disk_write) {
      out.add(figure, lists[0].tasks[k]);
      continue;
    }
    std::vector<BenchTask> of_ranks{lists[0].tasks[k]};
    for (size_t rank = 1; rank < lists.size(); ++rank) of_ranks.push_back(lists[rank].tasks.at(next));
    ++next;
    out.add(figure, beside_each_other(team, std::move(of_ranks), at_once, figure.kind));
  }
  add_collectives(settings, team, out);
  return out;
}

}  // namespace tern
