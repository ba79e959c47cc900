#pragma once
// The memory that this process holds: how much it is, and what the C library keeps of what was freed.

#include <cstdint>

namespace tern {

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;
};
ProcessMemory read_process_memory();
/// Lets the kernel forget the peak so far, so that a phase can be measured. False where it does not allow that.
bool reset_peak_resident();
/// What the program itself takes beside the tensors it counts: resident now, and what code pages, thread stacks and the
/// buffers of libraries still add once it works. Call before anything large is allocated.
int64_t program_bytes();

/// From now on the C library gives large blocks (128 KiB and more) back to the system when they are freed. Left alone, it
/// raises that bound to the size of each such block that is freed, and then keeps up to twice as much: memory that is resident,
/// but counted nowhere.
void return_freed_blocks();
/// The opposite, for work that makes and frees many tables and stays small: freed blocks under 256 MiB wait for the next ones, instead of
/// going back to the system and coming again page by page.
void keep_freed_blocks();

}  // namespace tern
