#pragma once
// An ImageRing on a virtual clock: when each image is there, and when the pass ends, if the disk does one thing after the other and writes
// come first. The prediction of a step whose keys and values lie on a disk.

#include <cstdint>
#include <span>
#include <vector>

namespace tern {

/// One image of a pass, in order.
struct ImageStep {
  int64_t read_ps = 0, write_ps = 0;  // the disk's work for it; 0: none
  int64_t before_ps = 0;              // of work that needs no image, after the image before it
  int64_t held_ps = 0;                // of work with it, from acquire to release
};

struct ImagePassTimes {
  std::vector<int64_t> acquired_ps, released_ps, written_ps;  // of each image; written: the end of its write
  int64_t end_ps = 0;                                         // of all work and of the last write
};

/// A pass that begins with the disk at rest and lasts until it is at rest again.
///   read     begins when those before it have ended and a slot is free: when the write of the image `slots` before has ended
///   write    begins with its image's release, after the writes before it; a read that is under way halts meanwhile
///   acquire  when the work before has ended and the read has
/// `after_ps`: of work after the last image. `slots`: those of the ring; no more are used than there are images.
/// Of n equal images that are not written, with no other work and slots ≥ 2: read + (n − 1)·max(read, held) + held.
ImagePassTimes image_pass_times(std::span<const ImageStep>, int64_t after_ps, int slots);

}  // namespace tern
