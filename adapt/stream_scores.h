#pragma once
// The scores of a stream of tasks, and what they say about forgetting. With T tasks, numbered from 1, a[i][j] is the score of task j after
// task i was learned; a[0][j] is its score before the first task.

#include <optional>
#include <string>
#include <vector>

namespace tern {

/// All scores of a stream, in bits per byte or as shares of right answers.
struct StreamScores {
  bool accuracy = false;                  // true: shares of right answers, of which more is better
  std::vector<std::string> tasks;         // names
  std::vector<double> before;             // a[0]
  std::vector<std::vector<double>> rows;  // a[1], a[2], … as far as the stream has come
  std::vector<double> alone;              // by task: after a run on it alone; empty: there was no such run
  std::vector<double> together;           // by task: after one run on all tasks; empty: there was no such run
};

/// What the scores of a whole stream say, in their unit. The formulas are those for bits per byte, of which less is better. For shares of right
/// answers all but AP change sign, and "least" becomes "most". So FT > 0 and BWT < 0 both mean that tasks were forgotten.
/// Source: the definitions usual in continual learning (Chaudhry et al. 2018, Lopez-Paz & Ranzato 2017).
struct StreamSummary {
  double average = 0;  // AP = mean over j of a[T][j]
  // FT = mean over j < T of (a[T][j] - the least a[l][j] with l < T); none: there is one task.
  std::optional<double> forgot;
  std::optional<double> backward;  // BWT = mean over j < T of (a[j][j] - a[T][j])
  std::optional<double> forward;   // FWT = mean over j > 1 of (a[0][j] - a[j-1][j])
};
/// The summary of a whole stream. Errors: TERN_CHECK: rows are missing.
StreamSummary summary_of(const StreamScores&);
/// A text for people: the scores as a table, and the summary in words.
std::string table_of(const StreamScores&);

}  // namespace tern
