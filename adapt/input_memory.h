#pragma once
// What a layer remembers of the inputs of earlier tasks, and in which directions a new task may learn: InfLoRA with
// DualGPM. Source: Liang & Li 2024, arXiv:2404.00228 (from notes), and its code (liangyanshuo/InfLoRA, read).
//
// The paper's branch is A_t·B_t, where B_t (r, d) is given and A_t (out, r) is trained. PEFT calls B_t lora_A and A_t lora_B, and so does
// tern: a branch's `a` is the paper's B_t.
//
// C = (1/n)·Σ x·xᵀ (d, d) is taken over a layer's inputs x; the inputs themselves, which the paper calls H, are not kept. With M the
// memory's rows, Q projects onto the free directions: it is I − MᵀM, or MᵀM if the rows are the free directions. The eigenvectors of
// Q·K·Q are a task's directions, its eigenvalues their energies; K is C or C² (InfloraMode).

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tern {

/// The paper and its code differ; which of the two to follow.
enum class InfloraMode : uint8_t {
  // K = C, so energies are squares of the singular values of H. Rows of B_t have norm 1. The first task keeps directions until the
  // threshold is reached.
  paper,
  // K = C², as the code takes singular values of C, so energies are fourth powers of those of H. Rows of B_t have norm 1/√3. The first
  // task keeps one direction fewer than it takes to reach the threshold, but at least one.
  code,
};
std::string_view name_of(InfloraMode);

/// A layer's memory: orthonormal rows of d numbers, never more than d/2 of them (DualGPM). They are the protected directions, or, once more
/// than d/2 directions are protected, the free directions.
struct InputMemory {
  int64_t dim = 0;           // d
  bool keeps_free = false;   // whether the rows are the free directions
  std::vector<double> rows;  // (num_rows, dim)
  int64_t num_rows() const { return dim > 0 ? static_cast<int64_t>(rows.size()) / dim : 0; }
  int64_t protected_dim() const { return keeps_free ? dim - num_rows() : num_rows(); }
};

/// The share of energy that is to be protected when task `task` (from 0) of `tasks` ends: first + (last − first)·task/tasks.
double energy_threshold(double first, double last, int64_t task, int64_t tasks);
/// Q·x of each row of `x` (count, dim): the part of it in the free directions.
std::vector<double> free_part(const InputMemory&, std::span<const double> x);
/// B_t (rank, dim): the leading directions of Q·K·Q, where `covariance` is C. If fewer than `rank` directions have energy, the other rows are
/// zeros, as any other vector might lie among the old inputs.
/// Promises  |b·m| ≤ 1e-12·|b| for each row b and each protected direction m.
std::vector<double> task_directions(const InputMemory&, std::span<const double> covariance, int64_t rank, InfloraMode);
/// Protects the leading directions of a task too, as many as the threshold asks for. Protected directions stay protected. `covariance`: C.
void remember(InputMemory&, std::span<const double> covariance, double threshold, InfloraMode);

/// Σ a·b, added from the front; of equal length.
double dot(std::span<const double> a, std::span<const double> b);

}  // namespace tern
