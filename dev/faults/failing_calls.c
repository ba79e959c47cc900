// A library for LD_PRELOAD: the FAULT_AT-th call that writes below FAULT_FOLDER fails with FAULT_ERRNO, or, where
// FAULT_SHORT is set and it is a write, does half its work and fails the next time. At the end the number of such calls
// is added as a line to FAULT_COUNT. dev/faults/verbs.py builds and uses it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long calls = 0, failed_writes = 0;

static long number_of(const char* name) {
  const char* text = getenv(name);
  return text ? atol(text) : 0;
}

static int below(const char* path) {
  const char* folder = getenv("FAULT_FOLDER");
  return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int fd_below(int fd) {
  char name[64], path[PATH_MAX];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(name, path, sizeof path - 1);
  if (size <= 0) return 0;
  path[size] = 0;
  return below(path);
}

static int path_below(int folder, const char* path) {
  if (!path) return 0;
  return path[0] == '/' || folder == AT_FDCWD ? below(path) : fd_below(folder);
}

// 1: this call is the one that fails; 2: it does half its work.
static int fails(int is_write) {
  pthread_mutex_lock(&lock);
  const long mine = ++calls, at = number_of("FAULT_AT"), shortly = number_of("FAULT_SHORT");
  int what = 0;
  if (at > 0 && mine == at) what = is_write && shortly ? 2 : 1;
  if (at > 0 && mine > at && is_write && shortly && failed_writes == 1) what = 1;
  if (what) ++failed_writes;
  pthread_mutex_unlock(&lock);
  if (what == 1) errno = number_of("FAULT_ERRNO") ? (int)number_of("FAULT_ERRNO") : EIO;
  return what;
}

__attribute__((destructor)) static void tell(void) {
  const char* path = getenv("FAULT_COUNT");
  if (!path) return;
  unsetenv("FAULT_FOLDER");
  FILE* file = fopen(path, "a");
  if (!file) return;
  fprintf(file, "%ld\n", calls);
  fclose(file);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void* data, size_t size) {
  if (fd_below(fd)) {
    const int what = fails(1);
    if (what == 1) return -1;
    if (what == 2 && size > 1) size /= 2;
  }
  return NEXT(write)(fd, data, size);
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (fd_below(fd) && fails(0)) return -1;
  return NEXT(writev)(fd, parts, count);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  if (fd_below(fd)) {
    const int what = fails(1);
    if (what == 1) return -1;
    if (what == 2 && size > 1) size /= 2;
  }
  return NEXT(pwrite)(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  if (fd_below(fd)) {
    const int what = fails(1);
    if (what == 1) return -1;
    if (what == 2 && size > 1) size /= 2;
  }
  return NEXT(pwrite64)(fd, data, size, at);
}
int fsync(int fd) { return fd_below(fd) && fails(0) ? -1 : NEXT(fsync)(fd); }
int fdatasync(int fd) { return fd_below(fd) && fails(0) ? -1 : NEXT(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { return fd_below(fd) && fails(0) ? -1 : NEXT(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return fd_below(fd) && fails(0) ? -1 : NEXT(ftruncate64)(fd, size); }
int rename(const char* from, const char* to) { return below(to) && fails(0) ? -1 : NEXT(rename)(from, to); }
int renameat(int a, const char* from, int b, const char* to) {
  return path_below(b, to) && fails(0) ? -1 : NEXT(renameat)(a, from, b, to);
}
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  return path_below(b, to) && fails(0) ? -1 : NEXT(renameat2)(a, from, b, to, flags);
}
int mkdir(const char* path, mode_t mode) { return below(path) && fails(0) ? -1 : NEXT(mkdir)(path, mode); }
int mkdirat(int folder, const char* path, mode_t mode) {
  return path_below(folder, path) && fails(0) ? -1 : NEXT(mkdirat)(folder, path, mode);
}
int link(const char* from, const char* to) { return below(to) && fails(0) ? -1 : NEXT(link)(from, to); }
int linkat(int a, const char* from, int b, const char* to, int flags) {
  return path_below(b, to) && fails(0) ? -1 : NEXT(linkat)(a, from, b, to, flags);
}

static mode_t mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; }
#define OPENS(name)                                                                    \
  int name(const char* path, int flags, ...) {                                         \
    va_list list;                                                                      \
    va_start(list, flags);                                                             \
    const mode_t mode = mode_of(flags, list);                                          \
    va_end(list);                                                                      \
    if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && below(path) && fails(0)) return -1; \
    return NEXT(name)(path, flags, mode);                                              \
  }
OPENS(open)
OPENS(open64)
#define OPENS_AT(name)                                                                                   \
  int name(int folder, const char* path, int flags, ...) {                                               \
    va_list list;                                                                                        \
    va_start(list, flags);                                                                               \
    const mode_t mode = mode_of(flags, list);                                                            \
    va_end(list);                                                                                        \
    if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && path_below(folder, path) && fails(0)) return -1; \
    return NEXT(name)(folder, path, flags, mode);                                                        \
  }
OPENS_AT(openat)
OPENS_AT(openat64)
