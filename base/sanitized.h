#pragma once
// TERN_SANITIZED is defined if this build runs under a sanitizer, whose runtime must see every allocation and memory fault itself.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TERN_SANITIZED 1  // g++
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TERN_SANITIZED 1  // clang
#endif
#endif
