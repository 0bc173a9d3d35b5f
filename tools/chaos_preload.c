// A file system with hiccups and a clock that is wrong, for one process: LD_PRELOAD of tools/chaos.py and the tests.
//
//   CHAOS_CONTROL=FILE   32 bytes that another process may rewrite at any time, native byte order:
//                        int64 errno, int64 until (ns of the monotonic clock), int64 skew (s), int64 which calls
//   CHAOS_ROOT=FOLDER    only names and descriptors under it are hurt
//
// While the monotonic clock is before `until`, calls fail with `errno`. `which`: 1 reading and looking, 2 writing and
// naming, 3 both. CLOCK_REALTIME is moved by `skew`. Nothing is hurt without a control file.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct control { volatile int64_t error, until, skew, which; };
enum { LOOK = 1, WRITE = 2 };

static struct control none, *control = &none;
static const char *root;
static size_t root_length;

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

// Found at its first call: Python 3.13 asks the time before `begin` was called.
static int real_clock(clockid_t which, struct timespec *now) {
  static __typeof__(&clock_gettime) real;
  if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "clock_gettime");
  return real(which, now);
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CHAOS_CONTROL");
  root = getenv("CHAOS_ROOT");
  if (!path || !root) return;
  root_length = strlen(root);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void *mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED) control = mapped;
  close(fd);
}

static int bad_time(int kind) {
  if (!control->error || !(control->which & kind)) return 0;
  struct timespec now;
  real_clock(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec < control->until;
}

static int under_root(const char *path) { return root && !strncmp(path, root, root_length); }

static int of_fd(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return under_root(path);
}

static int hurts(int kind, const char *path, int fd) {
  if (!bad_time(kind)) return 0;
  int kept = errno, hit = path && path[0] == '/' ? under_root(path) : of_fd(fd);
  errno = hit ? (int)control->error : kept;
  return hit;
}

static int kind_of(int flags) { return flags & (O_WRONLY | O_RDWR | O_CREAT) ? WRITE : LOOK; }

#define OPEN(name)                                                                     \
  int name(const char *path, int flags, ...) {                                         \
    va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
    if (hurts(kind_of(flags), path, -1)) return -1;                                    \
    REAL(name); return real(path, flags, mode);                                        \
  }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                                   \
  int name(int at, const char *path, int flags, ...) {                                 \
    va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
    if (hurts(kind_of(flags), path, at)) return -1;                                    \
    REAL(name); return real(at, path, flags, mode);                                    \
  }
OPENAT(openat)
OPENAT(openat64)

// NAME(kind, name, parameters, arguments, path, descriptor)
#define CALL(type, kind, name, parameters, arguments, path, fd) \
  type name parameters {                                        \
    if (hurts(kind, path, fd)) return -1;                       \
    REAL(name); return real arguments;                          \
  }
CALL(ssize_t, LOOK, read, (int fd, void *b, size_t n), (fd, b, n), NULL, fd)
CALL(ssize_t, LOOK, pread, (int fd, void *b, size_t n, off_t o), (fd, b, n, o), NULL, fd)
CALL(ssize_t, LOOK, pread64, (int fd, void *b, size_t n, off64_t o), (fd, b, n, o), NULL, fd)
CALL(ssize_t, WRITE, write, (int fd, const void *b, size_t n), (fd, b, n), NULL, fd)
CALL(ssize_t, WRITE, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o), NULL, fd)
CALL(ssize_t, WRITE, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o), NULL, fd)
CALL(int, LOOK, stat, (const char *p, struct stat *s), (p, s), p, -1)
CALL(int, LOOK, lstat, (const char *p, struct stat *s), (p, s), p, -1)
CALL(int, LOOK, fstat, (int fd, struct stat *s), (fd, s), NULL, fd)
CALL(int, LOOK, fstatat, (int at, const char *p, struct stat *s, int f), (at, p, s, f), p, at)
CALL(int, LOOK, statx, (int at, const char *p, int f, unsigned m, struct statx *s), (at, p, f, m, s), p, at)
CALL(int, WRITE, fsync, (int fd), (fd), NULL, fd)
CALL(int, WRITE, link, (const char *a, const char *b), (a, b), b, -1)
CALL(int, WRITE, linkat, (int x, const char *a, int y, const char *b, int f), (x, a, y, b, f), b, y)
CALL(int, WRITE, rename, (const char *a, const char *b), (a, b), b, -1)
CALL(int, WRITE, renameat, (int x, const char *a, int y, const char *b), (x, a, y, b), b, y)
CALL(int, WRITE, renameat2, (int x, const char *a, int y, const char *b, unsigned f), (x, a, y, b, f), b, y)
CALL(int, WRITE, unlink, (const char *p), (p), p, -1)
CALL(int, WRITE, unlinkat, (int at, const char *p, int f), (at, p, f), p, at)
CALL(int, WRITE, rmdir, (const char *p), (p), p, -1)
CALL(int, WRITE, mkdir, (const char *p, mode_t m), (p, m), p, -1)
CALL(int, WRITE, mkdirat, (int at, const char *p, mode_t m), (at, p, m), p, at)
CALL(int, WRITE, utimensat, (int at, const char *p, const struct timespec t[2], int f), (at, p, t, f), p, at)
CALL(int, WRITE, futimens, (int fd, const struct timespec t[2]), (fd, t), NULL, fd)

DIR *opendir(const char *path) {
  if (hurts(LOOK, path, -1)) return NULL;
  REAL(opendir);
  return real(path);
}

int clock_gettime(clockid_t which, struct timespec *now) {
  int code = real_clock(which, now);
  if (!code && which == CLOCK_REALTIME) now->tv_sec += control->skew;
  return code;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  REAL(gettimeofday);
  int code = real(now, zone);
  if (!code) now->tv_sec += control->skew;
  return code;
}
