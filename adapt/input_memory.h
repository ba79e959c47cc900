#pragma once
// What a layer remembers of the inputs of earlier tasks, and which directions a new task may learn in: InfLoRA with
// DualGPM. Source: Liang & Li 2024, arXiv:2404.00228 (from notes), and its code (liangyanshuo/InfLoRA, read).
//
// The paper's branch is A_t·B_t; B_t (r, d) is given and A_t (out, r) trained. PEFT calls B_t lora_A and A_t lora_B, and so does
// tern: a branch's `a` is the paper's B_t.
//
// C = (1/n)·Σ x·xᵀ of a layer's inputs is d×d; H, the inputs themselves, is never kept. Q projects onto the free directions: I - MᵀM
// with M the memory's rows, or MᵀM where those are free. Directions and their energies are the eigenvectors and eigenvalues of Q·K·Q.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tern {

enum class InfloraMode : uint8_t {
  paper,  // K = C: energies are squares of H's singular values; rows of B_t have norm 1; the first task keeps directions until
          // the threshold is reached
  code,  // K = C²: the code takes singular values of C, so energies are fourth powers; rows of norm 1/√3; the first task keeps one
         // direction fewer than it takes to reach the threshold (at least one)
};
std::string_view name_of(InfloraMode);

/// Orthonormal rows of d numbers, never more than d/2 of them (DualGPM): the protected directions, or, as soon as there are more
/// than d/2 of those, the free directions.
struct InputMemory {
  int64_t dim = 0;
  bool keeps_free = false;
  std::vector<double> rows;  // (num_rows, dim)
  int64_t num_rows() const { return dim > 0 ? static_cast<int64_t>(rows.size()) / dim : 0; }
  int64_t protected_dim() const { return keeps_free ? dim - num_rows() : num_rows(); }
};

/// The share of energy to be protected by the end of task `task` (from 0) of `tasks`: first + (last - first)·task/tasks.
double energy_threshold(double first, double last, int64_t task, int64_t tasks);

/// Q·x of each row of `x` (count, dim): what the memory leaves free.
std::vector<double> free_part(const InputMemory&, std::span<const double> x);

/// B_t: `rank` rows of dim numbers, the leading directions of Q·K·Q. Where fewer directions have energy, the other rows are zeros,
/// as any other vector might lie among the old inputs.
/// Promises  |b·m| ≤ 1e-12·|b| for each row m that is protected.
std::vector<double> task_directions(const InputMemory&, std::span<const double> covariance, int64_t rank, InfloraMode);

/// Adds the directions of a task to the protected ones, as many as the threshold asks for; protected directions stay protected.
void remember(InputMemory&, std::span<const double> covariance, double threshold, InfloraMode);

}  // namespace tern
