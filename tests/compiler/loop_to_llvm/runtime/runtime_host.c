/* A host of the run time and a fake program in one: what test_runtime.py calls through ctypes.
   The run time's hidden functions are reached by their names in the object file. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "m.h"

typedef void body_function(void *argument, int64_t begin, int64_t end);

void parallel_for(weft_context *, int64_t count, int64_t grain, body_function *, void *argument)
    __asm__("m.parallel_for") __attribute__((visibility("hidden")));
int32_t program(weft_context *, const void *const *inputs, void *const *outputs, const int64_t *dims,
                void *workspace) __asm__("m.program");
int64_t workspace(const int64_t *dims) __asm__("m.workspace");
int32_t check_sizes(weft_context *, const int64_t *dims) __asm__("m.check_sizes");

/* outputs[0][i] = inputs[0][i] + inputs[1][i] for dims[0] floats, by way of the workspace. */
typedef struct {
  const float *lhs, *rhs;
  float *sums;
} addition;

static void add_part(void *argument, int64_t begin, int64_t end) {
  addition *a = argument;
  for (int64_t i = begin; i < end; ++i) a->sums[i] = a->lhs[i] + a->rhs[i];
}

int32_t program(weft_context *context, const void *const *inputs, void *const *outputs,
                const int64_t *dims, void *place) {
  addition a = {inputs[0], inputs[1], place};
  parallel_for(context, dims[0], 16, add_part, &a);
  memcpy(outputs[0], place, 4 * (size_t)dims[0]);
  return 0;
}

int64_t workspace(const int64_t *dims) { return 4 * dims[0]; }

int32_t check_sizes(weft_context *context, const int64_t *dims) {
  (void)context, (void)dims;
  return 0;
}

/* What the run time asks the system about cores: it is told `pretended` ones, where these are not
   negative, of the process's first thread and of others, and what it does is counted. */
#define OWN __attribute__((visibility("hidden")))
static atomic_int pretended[2] = {-1, -1}, moves, yields;
static uint64_t asked[2];

void pretend_cores(int32_t caller, int32_t worker) {
  pretended[0] = caller;
  pretended[1] = worker;
}

int32_t count_moves(uint64_t *sets) {
  memcpy(sets, asked, sizeof asked);
  return atomic_exchange(&moves, 0);
}

int32_t count_yields(void) { return atomic_exchange(&yields, 0); }

OWN int sched_getcpu(void) {
  int told = pretended[syscall(SYS_gettid) != getpid()];
  unsigned core = 0;
  if (told < 0) syscall(SYS_getcpu, &core, NULL, NULL);
  return told < 0 ? (int)core : told;
}

OWN int sched_setaffinity(pid_t thread, size_t size, const void *set) {
  memcpy(&asked[atomic_fetch_add(&moves, 1) % 2], set, sizeof *asked);
  return (int)syscall(SYS_sched_setaffinity, thread, size, set);
}

OWN int sched_yield(void) {
  atomic_fetch_add(&yields, 1);
  return (int)syscall(SYS_sched_yield);
}

static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* A loop that lives on the stack of its round: `alive` tells a late worker from one in time. */
enum { MOST = 64 };
typedef struct {
  atomic_int alive;
  atomic_int hits[MOST];
  atomic_int late;
} job;

static void hit(void *argument, int64_t begin, int64_t end) {
  job *j = argument;
  if (!atomic_load(&j->alive)) atomic_fetch_add(&j->late, 1);
  for (int64_t i = begin; i < end; ++i) atomic_fetch_add(&j->hits[i], 1);
}

static int64_t one_round(weft_context *context, int64_t count) {
  job j;
  int64_t errors = 0;
  memset(&j, 0, sizeof j);
  atomic_store(&j.alive, 1);
  parallel_for(context, count, 1, hit, &j);
  atomic_store(&j.alive, 0);
  for (int64_t i = 0; i < MOST; ++i) errors += atomic_load(&j.hits[i]) != (i < count);
  return errors + atomic_load(&j.late);
}

/* Rounds of 1 to MOST iterations until `most` rounds or `budget` nanoseconds are over; errors. */
int64_t stress(weft_context *context, int64_t most, int64_t budget, int64_t *rounds) {
  int64_t errors = 0, end = nanoseconds() + budget, round = 0;
  for (; round < most && (round % 64 || nanoseconds() < end); ++round)
    errors += one_round(context, 1 + round * 7 % MOST);
  *rounds = round;
  return errors;
}

/* Sleeps between rounds, so that workers go to sleep as well. */
int64_t stress_asleep(weft_context *context, int64_t most, int64_t pause, int64_t *rounds) {
  int64_t errors = 0;
  for (*rounds = 0; *rounds < most; ++*rounds) {
    struct timespec wait = {0, pause};
    nanosleep(&wait, NULL);
    errors += one_round(context, MOST);
  }
  return errors;
}

typedef struct {
  weft_context *context;
  int64_t most, budget, rounds, errors;
} caller;

static void *call_stress(void *argument) {
  caller *c = argument;
  c->errors = stress(c->context, c->most, c->budget, &c->rounds);
  return NULL;
}

/* Two threads that use one context; `rounds` has room for those of each. */
int64_t stress_twice(weft_context *context, int64_t most, int64_t budget, int64_t *rounds) {
  caller callers[2] = {{context, most, budget, 0, 0}, {context, most, budget, 0, 0}};
  pthread_t other;
  if (pthread_create(&other, NULL, call_stress, &callers[1])) return -1;
  call_stress(&callers[0]);
  pthread_join(other, NULL);
  for (int each = 0; each < 2; ++each) rounds[each] = callers[each].rounds;
  return callers[0].errors + callers[1].errors;
}

typedef struct {
  weft_context *context;
  atomic_int errors, rounds;
} nest;

static void hit_nested(void *argument, int64_t begin, int64_t end) {
  nest *n = argument;
  for (int64_t i = begin; i < end; ++i) {
    atomic_fetch_add(&n->errors, (int)one_round(n->context, 1 + i % MOST));
    atomic_fetch_add(&n->rounds, 1);
  }
}

int64_t stress_nested(weft_context *context, int64_t count, int64_t *rounds) {
  nest n = {context, 0, 0};
  parallel_for(context, count, 1, hit_nested, &n);
  *rounds = atomic_load(&n.rounds);
  return atomic_load(&n.errors);
}

/* How many threads ran a part of one loop whose parts wait for each other, at most `budget` ns. */
typedef struct {
  atomic_int arrived;
  int64_t end;
} meeting;

static void meet(void *argument, int64_t begin, int64_t end) {
  meeting *m = argument;
  (void)begin, (void)end;
  atomic_fetch_add(&m->arrived, 1);
  while (atomic_load(&m->arrived) < 2 && nanoseconds() < m->end) {
  }
}

/* 1 where two parts of a loop ran at the same time. */
int32_t runs_at_once(weft_context *context, int64_t budget) {
  meeting m = {0, nanoseconds() + budget};
  parallel_for(context, 2, 1, meet, &m);
  return nanoseconds() < m.end;
}

static void nothing(void *argument, int64_t begin, int64_t end) {
  (void)argument, (void)begin, (void)end;
}

/* Nanoseconds of a loop with nothing in it, one right after the other. */
double fork_join_latency(weft_context *context, int64_t rounds) {
  int64_t start = nanoseconds();
  for (int64_t round = 0; round < rounds; ++round) parallel_for(context, 2, 1, nothing, NULL);
  return (double)(nanoseconds() - start) / (double)rounds;
}

/* The parts that a loop was cut into, in `parts` as begin and end; how many. */
typedef struct {
  atomic_int count;
  int64_t *parts;
} record;

static void note_part(void *argument, int64_t begin, int64_t end) {
  record *r = argument;
  int64_t *part = r->parts + 2 * atomic_fetch_add(&r->count, 1);
  part[0] = begin, part[1] = end;
}

int32_t record_parts(weft_context *context, int64_t count, int64_t grain, int64_t *parts) {
  record r = {0, parts};
  parallel_for(context, count, grain, note_part, &r);
  return atomic_load(&r.count);
}

/* A host's own parallel_for, which runs loops in two uneven parts, the later one first. */
static void host_parallel_for(void *user, int64_t count, body_function *body, void *argument) {
  ++*(int64_t *)user;
  body(argument, count / 3, count);
  body(argument, 0, count / 3);
}

weft_context *create_with_host_loop(uint32_t threads, int64_t *calls) {
  weft_options options = {sizeof options, threads, 0, host_parallel_for, calls, 0, 0, 0, 0, 0, 0, 0, 0};
  return m_create(&options);
}

/* An allocator that counts what is out. */
static void *counted_allocate(void *user, uint64_t bytes, uint64_t alignment) {
  ++*(int64_t *)user;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void counted_release(void *user, void *memory) {
  --*(int64_t *)user;
  free(memory);
}

weft_context *create_with_allocator(int64_t *blocks) {
  weft_options options = {sizeof options, 2, 0, 0, 0, counted_allocate, counted_release, blocks, 0, 0, 0, 0, 0};
  return m_create(&options);
}

static void *failing_allocate(void *user, uint64_t bytes, uint64_t alignment) {
  (void)user, (void)bytes, (void)alignment;
  return NULL;
}

weft_context *create_without_memory(void) {
  weft_options options = {sizeof options, 2, 0, 0, 0, failing_allocate, counted_release, 0, 0, 0, 0, 0, 0};
  return m_create(&options);
}
