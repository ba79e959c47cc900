#pragma once
// Bars of use against capacity as stand-alone SVG text, in the style of plot.h.

#include <string>
#include <vector>

namespace tern {

/// A bar of use against a capacity, in any unit that both share.
struct CapacityBar {
  std::string name;
  double used = 0, capacity = 0;
  std::string note = {};           // "62.8 of 71.7 GiB"
  std::vector<double> parts = {};  // of `used`, by CapacityChart::kinds; empty: one colour
};

/// Bars, one below the other.
struct CapacityChart {
  std::string title = {};
  std::vector<CapacityBar> bars = {};
  std::vector<std::string> kinds = {};  // legend of the parts; at most six colours
  int width = 900;
};

/// Shows each bar against its own capacity, and marks a bar that is over it. Errors  bug: no bars; numbers below zero; parts
/// that are not as many as the kinds, or whose sum is not `used`; more than six kinds.
std::string svg(const CapacityChart&);

}  // namespace tern
