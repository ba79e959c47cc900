#pragma once
// The memory of this process: its size, and whether the C library keeps freed blocks.

#include <cstdint>

namespace tern {

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;
};
ProcessMemory read_process_memory();
/// Resets peak_resident_bytes, so that the peak of a phase can be measured. False: the kernel does not allow it.
bool reset_peak_resident();
/// The bytes that the program takes beside the tensors that it counts: what is resident now, and an allowance for code
/// pages, thread stacks and buffers of libraries that are touched later. Call it before anything large is allocated.
int64_t program_bytes();

/// Makes the C library give large blocks (128 KiB and more) back to the system when they are freed. By default it raises
/// this threshold to the size of each such block that is freed, and then keeps up to twice the threshold: memory that is
/// resident, but counted nowhere.
void return_freed_blocks();
/// The opposite, for work that allocates and frees many tables but never holds much: the C library keeps freed blocks under
/// 256 MiB for reuse. Returned to the system, they would have to be mapped again page by page.
void keep_freed_blocks();

}  // namespace tern
