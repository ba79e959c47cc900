#pragma once
// The text of `tern demo`: Debian's fortunes, or a file of the user's, split into a part to train on and a part that is held
// out.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/io.h"

namespace tern {

struct DemoText {
  std::string text;
  std::string source;       // for people: "43 files of fortunes", or the path
  int64_t overstrikes = 0;  // backspaces taken out
};

/// Old texts underline by backspaces: "____", four backspaces, "LAST". As on paper the later sign stays: each backspace
/// takes back one code point, but never a line's end.
std::string without_overstrikes(std::string_view text);

/// The texts of DIRECTORY in byte order of their names, as Debian's packages fortunes-min and fortunes install them
/// (plain files; not the .dat indexes, the .u8 links or the folder off/), overstrikes removed. Errors  bad_file: the
/// folder is not there (the message says which packages bring it), or a text is not UTF-8.
DemoText fortunes_text(Io& io, const std::string& directory);

/// A text of the user's, overstrikes removed.
/// Errors  bad_file: unreadable, not UTF-8, or under 200 kB: too little to learn from and to measure on.
DemoText file_text(Io& io, const std::string& path);

struct HeldOut {
  std::string train, held_out;
  std::string how;       // for people
  int64_t repeated = 0;  // held-out fortunes left out of both because they also stand among the trained ones
};

/// Fortunes (parted by lines of a single %): every twentieth is held out, unless it stands among the others too. Any
/// other text: the last twentieth, from a line's beginning.
HeldOut hold_out(std::string_view text);

}  // namespace tern
