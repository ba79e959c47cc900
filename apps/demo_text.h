#pragma once
// The text of `tern demo`: Debian's fortunes, or a file of the user. It is split into a part to train on and a part that is held out.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/io.h"

namespace tern {

struct DemoText {
  std::string text;
  std::string source;       // for people: "43 files of fortunes", or the path
  int64_t overstrikes = 0;  // the number of backspaces that were removed
};
/// Removes underlining by backspaces, as in old texts: "____", four backspaces, "LAST". Each backspace removes the code
/// point before it, so of two characters in one place the later one stays, as on paper. The end of a line is never removed.
std::string without_overstrikes(std::string_view text);

/// The texts that Debian's packages fortunes-min and fortunes install in DIRECTORY, in byte order of their names, overstrikes
/// removed. Texts are the plain files whose names have no dot (no .dat indexes, no .u8 links), not those in the folder off/.
/// Errors  bad_file: no such folder (the message names the packages), a text that is not UTF-8, less than 200 kB in all.
DemoText fortunes_text(Io& io, const std::string& directory);

/// A text of the user, overstrikes removed.
/// Errors  bad_file: the file cannot be read, is not UTF-8, or has less than 200 kB, which is too little to learn from and to measure.
DemoText file_text(Io& io, const std::string& path);

struct HeldOut {
  std::string train, held_out;
  std::string how;  // how it was split, for people
  // The number of fortunes that should be held out, but are left out, as they occur among the trained ones too.
  int64_t repeated = 0;
};
/// Splits a text. Of fortunes (200 or more, separated by lines of a single %) every twentieth is held out, unless it occurs
/// among the others too. Of any other text the last twentieth is held out, from the beginning of a line.
HeldOut hold_out(std::string_view text);

}  // namespace tern
