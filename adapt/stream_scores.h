#pragma once
// What a stream of tasks scored, and what that says about forgetting. T tasks; a[i][j] is the score of task j after task i
// was learned (from 1; row 0 is the model as it came).

#include <optional>
#include <string>
#include <vector>

namespace tern {

/// Scores in bits per byte, where less is better, or shares of right answers.
struct StreamScores {
  bool accuracy = false;
  std::vector<std::string> tasks;
  std::vector<double> before;             // row 0
  std::vector<std::vector<double>> rows;  // a[1], a[2], … as far as the stream came
  std::vector<double> alone;              // task j after a run on it alone; empty: not asked for
  std::vector<double> together;           // after one run on all tasks; empty: not asked for
};

/// Of a whole stream, in its scores' unit. As stated for bits per byte; for shares of right answers all but AP change
/// sign, and least becomes most. Source: the definitions usual in continual learning (Chaudhry et al. 2018, Lopez-Paz &
/// Ranzato 2017), with the sign turned where less is better, so that FT > 0 and BWT < 0 both mean that tasks were forgotten.
struct StreamSummary {
  double average = 0;              // AP = mean over j of a[T][j]
  std::optional<double> forgot;    // FT = mean over j < T of (a[T][j] - the least a[l][j] of l < T); none of one task
  std::optional<double> backward;  // BWT = mean over j < T of (a[j][j] - a[T][j])
  std::optional<double> forward;   // FWT = mean over j > 1 of (a[0][j] - a[j-1][j])
};
/// Errors: TERN_CHECK: rows are missing.
StreamSummary summary_of(const StreamScores&);

/// For people: the matrix with its rows, and the summary in words.
std::string table_of(const StreamScores&);

}  // namespace tern
