#pragma once
// Pinned axes as text, and the one rule that says which outer choices are left.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/layers.h"
#include "plan/plan.h"
#include "plan/plan_axes.h"
#include "spec/model_spec.h"

namespace tern {

/// Reads the value of --fix, "tp=8,pp=4,schedule=1f1b,layers=even". Errors: usage "--fix: …" for an unknown axis (with
/// the nearest), a value that the axis cannot have, an axis given twice.
PinnedAxes parse_pinned(std::string_view text);
/// The pinned axes as a text like that of --fix, in a fixed order, without the framework. parse_pinned reads it back, unless it is empty.
std::string to_string(const PinnedAxes&);

/// axes_given: names of the pinned axes, in the order of to_string. axis_value: the value of one axis, "" if it is free.
std::vector<std::string> axes_given(const PinnedAxes&);
std::string axis_value(const PinnedAxes&, std::string_view axis);
/// without_axis: a copy with the axis free; with_axis: a copy with `from`'s value of the axis. Errors: as parse_pinned, for an unknown axis.
PinnedAxes without_axis(const PinnedAxes&, std::string_view axis);
PinnedAxes with_axis(const PinnedAxes&, const PinnedAxes& from, std::string_view axis);
/// A plan's values of all axes that matter under its choice. An axis of layers has a value only if all layers share it.
PinnedAxes axes_of(const OuterChoice&, const std::vector<PlannedLayers>&);

/// "" if three things hold: the choice has the pinned value of each axis of mesh and pipeline that matters under it;
/// the pinned framework, if any, runs it on nodes with `devices_of_node` devices; if layers=even is pinned, there is an
/// even cut. Else the reason: the axis and both values, what the framework lacks, or why there is no even cut.
std::string why_not_pinned(const PinnedAxes&, const TrainJob&, const OuterChoice&, const std::vector<Layer>&,
                           const ModelSpec&, int64_t devices_of_node);
/// Whether the mesh and the micro-batch are the pinned ones, before stages are known.
bool may_be_pinned(const PinnedAxes&, const Mesh&, int64_t micro_batch);

/// The virtual stage of each layer in the even cut; empty if there is no such cut (why_not_pinned says why).
std::vector<int> even_stages(const ModelSpec&, const std::vector<Layer>&, int virtual_stages);

}  // namespace tern
