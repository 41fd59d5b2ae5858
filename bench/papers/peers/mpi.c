/*
 * Measures one-sided operations of an MPI for `rmalab compare`, which builds and runs this program.
 *
 *     mpi BUDGET_NS OPERATION...
 *
 * Rank 0 writes lines: `version TEXT` first, `begin OPERATION` before an operation, `row OPERATION NS` after it, or
 * `wrong OPERATION TEXT` if the memory has unexpected content, and
 * `done` at the end. A missing line shows which operation crashed, or hangs.
 *
 * Every operation is the same as in bench/papers/src/compare/ours.rs with our windows: the same loops, sizes and checks.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* As in ours.rs. */
#define BATCHES 5
#define MOST_CALLS 10000000L
#define SHORT_CHUNK 10e3
#define LONG_CHUNK 100e3
#define MOST_CHUNK 4096
#define BURST 16
#define BURST_BYTES (1 << 20)
#define MANY 1000
#define TABLE_WORDS (1 << 16)
#define DATA_BYTES ((size_t)BURST * BURST_BYTES)
#define COUNTER_DISP ((MPI_Aint)DATA_BYTES)
#define WINDOW_BYTES (DATA_BYTES + 4096)
/* Memory of all operations except the bursts. */
#define SMALL_BYTES ((size_t)1 << 20)
/* No operation may keep a rank longer; the command ends it sooner. */
#define ALARM_SECONDS 180

static int rank, size, other, before, after;
static MPI_Win win;
static int64_t *base;
static char *source;
static int64_t *ones;
static MPI_Group successor, predecessor;
/* The value that `put` writes: the number of its calls. */
static int64_t puts_made;
static uint64_t state;
static long failures;
static double *each_rank;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* One of the other ranks. */
static int random_other(uint64_t bits)
{
    return (int)((rank + 1 + (bits >> 32) % (uint64_t)(size - 1)) % (uint64_t)size);
}

static void put8(long calls)
{
    for (long i = 0; i < calls; i++) {
        puts_made++;
        MPI_Put(&puts_made, 8, MPI_BYTE, other, COUNTER_DISP, 8, MPI_BYTE, win);
        MPI_Win_flush(other, win);
    }
}

static void get8(long calls)
{
    for (long i = 0; i < calls; i++) {
        int64_t value = -1;
        MPI_Get(&value, 8, MPI_BYTE, other, COUNTER_DISP, 8, MPI_BYTE, win);
        MPI_Win_flush(other, win);
        failures += value != 0;
    }
}

static void put_many(long calls)
{
    for (long i = 0; i < calls; i++) {
        for (int place = 0; place < MANY; place++)
            MPI_Put(source + 8 * place, 8, MPI_BYTE, other, 8 * (MPI_Aint)place, 8, MPI_BYTE, win);
        MPI_Win_flush(other, win);
    }
}

static void put_128k(long calls)
{
    for (long i = 0; i < calls; i++) {
        MPI_Put(source, 128 << 10, MPI_BYTE, other, 0, 128 << 10, MPI_BYTE, win);
        MPI_Win_flush(other, win);
    }
}

static void put_burst(long calls)
{
    for (long i = 0; i < calls; i++) {
        for (int place = 0; place < BURST; place++)
            MPI_Put(source, BURST_BYTES, MPI_BYTE, other, (MPI_Aint)place * BURST_BYTES, BURST_BYTES, MPI_BYTE, win);
        MPI_Win_flush(other, win);
    }
}

static void fetch_and_op_at(int target, long calls)
{
    int64_t one = 1, result;
    for (long i = 0; i < calls; i++) {
        MPI_Fetch_and_op(&one, &result, MPI_INT64_T, target, COUNTER_DISP, MPI_SUM, win);
        MPI_Win_flush(target, win);
    }
}

static void fetch_and_op(long calls) { fetch_and_op_at(other, calls); }
static void all_fetch_and_op(long calls) { fetch_and_op_at(0, calls); }

static void compare_and_swap(long calls)
{
    for (long i = 0; i < calls; i++) {
        int64_t expected = puts_made, desired = ++puts_made, result;
        MPI_Compare_and_swap(&desired, &expected, &result, MPI_INT64_T, other, COUNTER_DISP, win);
        MPI_Win_flush(other, win);
        failures += result != expected;
    }
}

static void accumulate(int count, long calls)
{
    for (long i = 0; i < calls; i++) {
        MPI_Accumulate(ones, count, MPI_INT64_T, other, 0, count, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_flush(other, win);
    }
}

static void accumulate_1(long calls) { accumulate(1, calls); }
static void accumulate_128(long calls) { accumulate(128, calls); }
static void accumulate_1k(long calls) { accumulate(1024, calls); }
static void accumulate_64k(long calls) { accumulate(65536, calls); }

static void lock_at(int kind, int target, long calls)
{
    for (long i = 0; i < calls; i++) {
        MPI_Win_lock(kind, target, 0, win);
        MPI_Win_unlock(target, win);
    }
}

static void lock_exclusive(long calls) { lock_at(MPI_LOCK_EXCLUSIVE, other, calls); }
static void lock_shared(long calls) { lock_at(MPI_LOCK_SHARED, other, calls); }
static void all_lock_exclusive(long calls) { lock_at(MPI_LOCK_EXCLUSIVE, 0, calls); }
static void all_lock_shared(long calls) { lock_at(MPI_LOCK_SHARED, 0, calls); }

static void lock_all(long calls)
{
    for (long i = 0; i < calls; i++) {
        MPI_Win_lock_all(0, win);
        MPI_Win_unlock_all(win);
    }
}

static void lock_put(long calls)
{
    for (long i = 0; i < calls; i++) {
        puts_made++;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win);
        MPI_Put(&puts_made, 8, MPI_BYTE, other, COUNTER_DISP, 8, MPI_BYTE, win);
        MPI_Win_unlock(other, win);
    }
}

static void flush(long calls)
{
    for (long i = 0; i < calls; i++)
        MPI_Win_flush(other, win);
}

static void window_sync(long calls)
{
    for (long i = 0; i < calls; i++)
        MPI_Win_sync(win);
}

static void fence_pair(long calls)
{
    for (long i = 0; i < calls; i++) {
        MPI_Win_fence(0, win);
        MPI_Win_fence(0, win);
    }
}

static void pscw(long calls)
{
    for (long i = 0; i < calls; i++) {
        MPI_Win_post(predecessor, 0, win);
        MPI_Win_start(successor, 0, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
}

static void barrier(long calls)
{
    for (long i = 0; i < calls; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void create(MPI_Aint bytes, long calls)
{
    for (long i = 0; i < calls; i++) {
        void *memory;
        MPI_Win made;
        MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &made);
        MPI_Win_free(&made);
    }
}

static void create_4k(long calls) { create(4 << 10, calls); }
static void create_1m(long calls) { create(1 << 20, calls); }
static void create_16m(long calls) { create(16 << 20, calls); }

static void ghost_fence(long calls)
{
    for (long i = 0; i < calls; i++) {
        MPI_Put(ones, 16, MPI_BYTE, after, 0, 16, MPI_BYTE, win);
        MPI_Win_fence(0, win);
    }
}

static void ghost_pscw(long calls)
{
    for (long i = 0; i < calls; i++) {
        MPI_Win_post(predecessor, 0, win);
        MPI_Win_start(successor, 0, win);
        MPI_Put(ones, 16, MPI_BYTE, after, 0, 16, MPI_BYTE, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
}

static void hash_insert(long calls)
{
    int64_t empty = 0, one = 1, result;
    for (long i = 0; i < calls; i++) {
        uint64_t bits = next_random();
        int64_t key = (int64_t)(bits >> 1 | 1);
        int owner = random_other(bits);
        MPI_Aint slot = 8 * (MPI_Aint)(bits % TABLE_WORDS);
        MPI_Compare_and_swap(&key, &empty, &result, MPI_INT64_T, owner, slot, win);
        MPI_Win_flush(owner, win);
        MPI_Fetch_and_op(&one, &result, MPI_INT64_T, owner, COUNTER_DISP, MPI_SUM, win);
        MPI_Win_flush(owner, win);
    }
}

static void gups(long calls)
{
    for (long i = 0; i < calls; i++) {
        uint64_t bits = next_random(), result;
        int owner = random_other(bits);
        MPI_Aint word = 8 * (MPI_Aint)(bits % TABLE_WORDS);
        MPI_Fetch_and_op(&bits, &result, MPI_UINT64_T, owner, word, MPI_BXOR, win);
        MPI_Win_flush(owner, win);
    }
}

/* The epoch of an operation. */
enum epoch { NONE, LOCK_ALL, FENCE };

/* The ranks that make an operation. */
enum who {
    ALONE,    /* rank 0 */
    TOGETHER, /* all ranks, each as often as the others, since they wait for each other */
    FREELY    /* all ranks, each as often as it can */
};

/* The expected content of memory afterwards. */
enum check {
    NOTHING,
    OTHERS_COUNTER, /* the other rank's counter: the calls of rank 0 */
    ALL_COUNTERS,   /* the sum of all counters: the calls of all ranks */
    ELEMENTS        /* the other rank's first and last element: the calls of rank 0 */
};

struct operation {
    const char *name;
    void (*run)(long calls);
    enum epoch epoch;
    enum who who;
    /* The number of operations in a call. */
    double each;
    enum check check;
    int elements;
};

static const struct operation operations[] = {
    { "put-8", put8, LOCK_ALL, ALONE, 1, OTHERS_COUNTER, 0 },
    { "get-8", get8, LOCK_ALL, ALONE, 1, NOTHING, 0 },
    { "put-8-many", put_many, LOCK_ALL, ALONE, MANY, NOTHING, 0 },
    { "put-128k", put_128k, LOCK_ALL, ALONE, 1, NOTHING, 0 },
    { "put-1m-burst", put_burst, LOCK_ALL, ALONE, BURST, NOTHING, 0 },
    { "fetch-and-op", fetch_and_op, LOCK_ALL, ALONE, 1, OTHERS_COUNTER, 0 },
    { "compare-and-swap", compare_and_swap, LOCK_ALL, ALONE, 1, OTHERS_COUNTER, 0 },
    { "accumulate-1", accumulate_1, LOCK_ALL, ALONE, 1, ELEMENTS, 1 },
    { "accumulate-128", accumulate_128, LOCK_ALL, ALONE, 1, ELEMENTS, 128 },
    { "accumulate-1k", accumulate_1k, LOCK_ALL, ALONE, 1, ELEMENTS, 1024 },
    { "accumulate-64k", accumulate_64k, LOCK_ALL, ALONE, 1, ELEMENTS, 65536 },
    { "lock-exclusive", lock_exclusive, NONE, ALONE, 1, NOTHING, 0 },
    { "lock-shared", lock_shared, NONE, ALONE, 1, NOTHING, 0 },
    { "lock-all", lock_all, NONE, ALONE, 1, NOTHING, 0 },
    { "lock-put", lock_put, NONE, ALONE, 1, OTHERS_COUNTER, 0 },
    { "flush", flush, LOCK_ALL, ALONE, 1, NOTHING, 0 },
    { "sync", window_sync, LOCK_ALL, ALONE, 1, NOTHING, 0 },
    { "fence-pair", fence_pair, FENCE, TOGETHER, 1, NOTHING, 0 },
    { "pscw", pscw, NONE, TOGETHER, 1, NOTHING, 0 },
    { "barrier", barrier, NONE, TOGETHER, 1, NOTHING, 0 },
    { "all-lock-shared", all_lock_shared, NONE, FREELY, 1, NOTHING, 0 },
    { "all-lock-exclusive", all_lock_exclusive, NONE, FREELY, 1, NOTHING, 0 },
    { "all-lock-all", lock_all, NONE, FREELY, 1, NOTHING, 0 },
    { "all-fetch-and-op", all_fetch_and_op, LOCK_ALL, FREELY, 1, ALL_COUNTERS, 0 },
    { "create-4k", create_4k, NONE, TOGETHER, 1, NOTHING, 0 },
    { "create-1m", create_1m, NONE, TOGETHER, 1, NOTHING, 0 },
    { "create-16m", create_16m, NONE, TOGETHER, 1, NOTHING, 0 },
    { "ghost-fence", ghost_fence, FENCE, TOGETHER, 1, NOTHING, 0 },
    { "ghost-pscw", ghost_pscw, NONE, TOGETHER, 1, NOTHING, 0 },
    { "hash-insert", hash_insert, LOCK_ALL, FREELY, 1, ALL_COUNTERS, 0 },
    { "gups", gups, LOCK_ALL, FREELY, 1, NOTHING, 0 },
};

static const struct operation *find(const char *name)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (!strcmp(operations[i].name, name))
            return &operations[i];
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/*
 * A barrier of ranks whose calls have ended, which sleeps where ranks share a processor. The times are collected by
 * calls in which a host may poll: a rank that polls there would slow down the ranks that are still measured.
 */
static void sleeping_barrier(void)
{
    if (size <= sysconf(_SC_NPROCESSORS_ONLN))
        return;
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        usleep(50);
    }
}

/* Makes that many calls on every rank; the time is from the first rank's start to the last rank's end. */
static double counted(const struct operation *op, long calls)
{
    double ends[2] = { -1e300, -1e300 };
    MPI_Barrier(MPI_COMM_WORLD);
    if (op->who != ALONE || rank == 0) {
        ends[0] = -now();
        op->run(calls);
        ends[1] = now();
    }
    sleeping_barrier();
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return ends[0] + ends[1];
}

/* Runs every rank for that time; returns the time of a call, the median of the ranks. */
static double freely(const struct operation *op, double time, long *total)
{
    long chunk = 1, calls = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now(), last = begin, end;
    do {
        op->run(chunk);
        calls += chunk;
        end = now();
        if (end - last < SHORT_CHUNK && chunk < MOST_CHUNK)
            chunk *= 2;
        else if (end - last > LONG_CHUNK && chunk > 1)
            chunk /= 2;
        last = end;
    } while (end - begin < time);
    double each = (end - begin) / calls;
    sleeping_barrier();
    MPI_Allgather(&each, 1, MPI_DOUBLE, each_rank, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &calls, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    *total += calls;
    return median(each_rank, size);
}

/* Nanoseconds of a call, and their number; all ranks have the same times, so all make the same number of calls. */
static double measure(const struct operation *op, double budget, long *total)
{
    double target = budget / BATCHES, time, times[BATCHES], sum = 0;
    long calls = 1;
    int made = 0;
    *total = 0;
    if (op->who == FREELY) {
        freely(op, target / 2, total);
        for (made = 0; made < BATCHES; made++)
            times[made] = freely(op, target, total);
    } else {
        for (;;) {
            time = counted(op, calls);
            *total += calls;
            if (time >= target / 2 || calls >= MOST_CALLS)
                break;
            double grown = time > 0 ? calls * (target / time) : 10.0 * calls;
            calls = grown > 10.0 * calls ? 10 * calls : (long)grown + 1;
        }
        if (calls > 1) {
            double wanted = time > 0 ? calls * (target / time) + 1 : MOST_CALLS;
            calls = wanted < MOST_CALLS ? (long)wanted : MOST_CALLS;
        }
        while (made < BATCHES && (made == 0 || sum < 4 * budget)) {
            time = counted(op, calls);
            sum += time;
            times[made++] = time / calls;
            *total += calls;
        }
    }
    return median(times, made) / op->each;
}

/* Returns whether memory has the expected content; the same answer on every rank. */
static int check(const struct operation *op, long total, long long *found, long long *expected)
{
    long long values[2] = { 0, failures };
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    int64_t counter = base[COUNTER_DISP / 8];
    *expected = total;
    switch (op->check) {
    case OTHERS_COUNTER:
        values[0] = rank == 1 ? counter : 0;
        break;
    case ALL_COUNTERS:
        values[0] = counter;
        break;
    case ELEMENTS:
        values[0] = rank == 1 ? (base[0] == base[op->elements - 1] ? base[0] : -1) : 0;
        break;
    case NOTHING:
        *expected = 0;
        break;
    }
    MPI_Allreduce(MPI_IN_PLACE, values, 2, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    *found = values[1] ? -values[1] : values[0];
    return *found == *expected;
}

static void say(const char *line)
{
    if (rank == 0) {
        printf("%s\n", line);
        fflush(stdout);
    }
}

static void do_one(const struct operation *op, double budget)
{
    char line[256];
    long total;
    long long found, expected;
    alarm(ALARM_SECONDS);
    snprintf(line, sizeof line, "begin %s", op->name);
    say(line);
    memset(base, 0, SMALL_BYTES);
    base[COUNTER_DISP / 8] = 0;
    puts_made = 0;
    failures = 0;
    state = 0x9e3779b97f4a7c15u * (uint64_t)(rank + 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    MPI_Barrier(MPI_COMM_WORLD);
    int mine = op->who != ALONE || rank == 0;
    if (op->epoch == LOCK_ALL && mine)
        MPI_Win_lock_all(0, win);
    if (op->epoch == FENCE)
        MPI_Win_fence(0, win);
    double time = measure(op, budget, &total);
    if (op->epoch == LOCK_ALL && mine)
        MPI_Win_unlock_all(win);
    if (op->epoch == FENCE)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check(op, total, &found, &expected))
        snprintf(line, sizeof line, "row %s %.3f", op->name, time);
    else
        snprintf(line, sizeof line, "wrong %s %lld instead of %lld", op->name, found, expected);
    say(line);
}

/* Binds the process to a processor by its rank, among the processors that it may use. */
static void bind_to_core(void)
{
    cpu_set_t may, one;
    if (sched_getaffinity(0, sizeof may, &may))
        return;
    int wanted = rank % CPU_COUNT(&may);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &may) && wanted-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

int main(int argc, char **argv)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING], line[MPI_MAX_LIBRARY_VERSION_STRING + 16];
    int length;
    /* A killed launcher leaves no rank. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(ALARM_SECONDS);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || size < 2) {
        fprintf(stderr, "use: mpi BUDGET_NS OPERATION..., on at least 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bind_to_core();
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = 0;
    snprintf(line, sizeof line, "version %s", text);
    say(line);

    other = rank == 0 ? 1 : 0;
    before = (rank + size - 1) % size;
    after = (rank + 1) % size;
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &after, &successor);
    MPI_Group_incl(world, 1, &before, &predecessor);
    source = calloc(1, BURST_BYTES);
    ones = malloc(65536 * sizeof *ones);
    MPI_Win_allocate(WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    each_rank = malloc((size_t)size * sizeof *each_rank);
    if (!source || !ones || !base || !each_rank)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(source, 1, BURST_BYTES);
    for (int i = 0; i < 65536; i++)
        ones[i] = 1;
    /* Touches all pages ahead of the measurements. */
    memset(base, 0, WINDOW_BYTES);

    for (int i = 2; i < argc; i++) {
        const struct operation *op = find(argv[i]);
        if (!op) {
            fprintf(stderr, "there is no operation '%s'\n", argv[i]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        do_one(op, atof(argv[1]));
    }
    say("done");
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
