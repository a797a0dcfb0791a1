/* A fork under glibc's checked heap leaves a child that can use its heap.
 *
 * glibc's fork() waits for its own heap's locks, not for those of libc_malloc_debug.so.0: a child
 * forked while another thread was in there inherits a lock that nobody ever gives back, and hangs
 * in its first malloc(). Here all ways into that heap are shared by the threads that use it and
 * closed by who forks. Loaded before libc_malloc_debug.so.0, whose functions it calls on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Who forks comes first: threads that do nothing but allocate would keep it out for ever. */
static pthread_rwlock_t heap = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static struct {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  size_t (*usable)(void*);
} checked;

static void close_heap(void) { pthread_rwlock_wrlock(&heap); }
static void open_heap(void) { pthread_rwlock_unlock(&heap); }
static void open_heap_of_child(void) {
  static const pthread_rwlock_t open = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
  memcpy(&heap, &open, sizeof heap); /* Its readers, if any were waiting, are no threads here. */
}

/* The checked heap's functions are there under glibc's first version only: plain dlsym() passes
   over them and finds the heap that checks nothing. */
#ifdef __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif

static void* function(const char* name) {
  void* found = dlvsym(RTLD_NEXT, name, FIRST_VERSION);
  if (!found) abort();
  return found;
}

/* The first caller may come before any constructor has run; the loader is one thread then. */
static void find(void) {
  static int begun;
  if (begun) return;
  begun = 1;
  *(void**)&checked.free = function("free");
  *(void**)&checked.calloc = function("calloc");
  *(void**)&checked.realloc = function("realloc");
  *(void**)&checked.memalign = function("memalign");
  *(void**)&checked.usable = function("malloc_usable_size");
  *(void**)&checked.malloc = function("malloc");
}

/* Handlers of the first who asks run last before a fork and first behind it: those of others,
   which may allocate, find the heap open. */
__attribute__((constructor)) static void begin(void) {
  find();
  pthread_atfork(close_heap, open_heap, open_heap_of_child);
}

/* What dlvsym() itself asks for while find() runs. */
static char room[8192];

static void* early(size_t size) {
  static size_t used;
  const size_t begin = (used + 15) & ~(size_t)15;
  if (size > sizeof room - begin) return NULL;
  used = begin + size;
  return room + begin;
}

#define SHARED(result_type, call) \
  pthread_rwlock_rdlock(&heap);   \
  result_type result = call;      \
  int why = errno;                \
  pthread_rwlock_unlock(&heap);   \
  errno = why;                    \
  return result

void* malloc(size_t size) {
  find();
  if (!checked.malloc) return early(size);
  SHARED(void*, checked.malloc(size));
}

void* calloc(size_t count, size_t size) {
  find();
  if (!checked.calloc) return early(count * size); /* Of a few bytes; static memory is zero. */
  SHARED(void*, checked.calloc(count, size));
}

void* realloc(void* old, size_t size) {
  find();
  SHARED(void*, checked.realloc(old, size));
}

void* memalign(size_t alignment, size_t size) {
  find();
  SHARED(void*, checked.memalign(alignment, size));
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** out, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) {
    return EINVAL;
  }
  void* memory = memalign(alignment, size);
  if (!memory) return ENOMEM;
  *out = memory;
  return 0;
}

size_t malloc_usable_size(void* memory) {
  find();
  SHARED(size_t, checked.usable(memory));
}

void free(void* memory) {
  find();
  if (!memory || ((char*)memory >= room && (char*)memory < room + sizeof room)) return;
  pthread_rwlock_rdlock(&heap);
  int why = errno;
  checked.free(memory);
  errno = why;
  pthread_rwlock_unlock(&heap);
}
