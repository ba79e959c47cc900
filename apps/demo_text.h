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
/// Removes underlining by backspaces, as in old texts: "____", four backspaces, "LAST". Each backspace removes the code point before it, so that of two
/// signs in one place the later one stays, as on paper; a line's end is never removed.
std::string without_overstrikes(std::string_view text);

/// The texts of DIRECTORY in byte order of their names, as Debian's packages fortunes-min and fortunes install them
/// (plain files; not the .dat indexes, the .u8 links or the folder off/), overstrikes removed. Errors  bad_file: the
/// folder is not there (the message says which packages bring it), or a text is not UTF-8.
DemoText fortunes_text(Io& io, const std::string& directory);

/// A text of the user, overstrikes removed.
/// Errors  bad_file: the file cannot be read, is not UTF-8, or has less than 200 kB, which is too little to learn from and to measure.
DemoText file_text(Io& io, const std::string& path);

struct HeldOut {
  std::string train, held_out;
  std::string how;  // how it was split, for people
  // Fortunes that should be held out, but occur among the trained ones too, so that they are left out.
  int64_t repeated = 0;
};
/// Splits a text. Of fortunes (separated by lines of a single %) every twentieth is held out, unless it occurs among the others too. Of any other
/// text the last twentieth is held out, from the beginning of a line.
HeldOut hold_out(std::string_view text);

}  // namespace tern
