/*
 * Measures the locks of Concurrency Kit and of the C library for `rmalab compare`, which builds and runs this program.
 *
 *     ck BUDGET_NS THREADS WRITERS LOCK...
 *
 * THREADS threads, each bound to a core in turn, acquire and release each lock with nothing inside; WRITERS of 100 times
 * for writing, in an order that is random and the same in every run. It writes lines as mpi.c does.
 * bench/papers/src/compare/locks.rs does the same with our locks and with Rust's.
 */
#define _GNU_SOURCE
#include <ck_brlock.h>
#include <ck_bytelock.h>
#include <ck_cohort.h>
#include <ck_md.h>
#include <ck_pflock.h>
#include <ck_rwcohort.h>
#include <ck_rwlock.h>
#include <ck_spinlock.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* As in locks.rs and batches.rs. */
#define BATCHES 5
#define SHORT_CHUNK 10e3
#define LONG_CHUNK 100e3
#define MOST_CHUNK 4096
#define PATTERN 1024
#define MOST_THREADS 48
/* No lock may take longer; the command ends it sooner. */
#define ALARM_SECONDS 180

#define LINE __attribute__((aligned(128)))

static int threads, writers;

/* The state of one thread. */
struct worker {
    pthread_t thread;
    int number;
    double begin, end;
    long calls;
    unsigned long place;
    bool writes[PATTERN];
} LINE;

static struct worker workers[MOST_THREADS];

#define INSIDE() __asm__ volatile("" ::: "memory")

#define LOOP(READ, READ_END, WRITE, WRITE_END)                                                                        \
    unsigned long place = self->place;                                                                                \
    for (long i = 0; i < calls; i++) {                                                                                \
        if (self->writes[place++ % PATTERN]) {                                                                        \
            WRITE;                                                                                                    \
            INSIDE();                                                                                                 \
            WRITE_END;                                                                                                \
        } else {                                                                                                      \
            READ;                                                                                                     \
            INSIDE();                                                                                                 \
            READ_END;                                                                                                 \
        }                                                                                                             \
    }                                                                                                                 \
    self->place = place;

#define MUTEX_LOOP(LOCK, UNLOCK)                                                                                        \
    (void)self;                                                                                                         \
    for (long i = 0; i < calls; i++) {                                                                                  \
        LOCK;                                                                                                           \
        INSIDE();                                                                                                       \
        UNLOCK;                                                                                                         \
    }

static pthread_rwlock_t pthread_rw LINE = PTHREAD_RWLOCK_INITIALIZER;

static void run_pthread_rwlock(struct worker *self, long calls)
{
    LOOP(pthread_rwlock_rdlock(&pthread_rw), pthread_rwlock_unlock(&pthread_rw), pthread_rwlock_wrlock(&pthread_rw),
         pthread_rwlock_unlock(&pthread_rw))
}

static pthread_mutex_t pthread_mu LINE = PTHREAD_MUTEX_INITIALIZER;

static void run_pthread_mutex(struct worker *self, long calls)
{
    MUTEX_LOOP(pthread_mutex_lock(&pthread_mu), pthread_mutex_unlock(&pthread_mu))
}

static ck_rwlock_t rwlock LINE = CK_RWLOCK_INITIALIZER;

static void run_rwlock(struct worker *self, long calls)
{
    LOOP(ck_rwlock_read_lock(&rwlock), ck_rwlock_read_unlock(&rwlock), ck_rwlock_write_lock(&rwlock),
         ck_rwlock_write_unlock(&rwlock))
}

static ck_pflock_t pflock LINE = CK_PFLOCK_INITIALIZER;

static void run_pflock(struct worker *self, long calls)
{
    LOOP(ck_pflock_read_lock(&pflock), ck_pflock_read_unlock(&pflock), ck_pflock_write_lock(&pflock),
         ck_pflock_write_unlock(&pflock))
}

static ck_brlock_t brlock LINE = CK_BRLOCK_INITIALIZER;
static struct {
    ck_brlock_reader_t reader;
} LINE readers[MOST_THREADS];

static void run_brlock(struct worker *self, long calls)
{
    ck_brlock_reader_t *reader = &readers[self->number].reader;
    LOOP(ck_brlock_read_lock(&brlock, reader), ck_brlock_read_unlock(reader), ck_brlock_write_lock(&brlock),
         ck_brlock_write_unlock(&brlock))
}

static ck_bytelock_t bytelock LINE = CK_BYTELOCK_INITIALIZER;

static void run_bytelock(struct worker *self, long calls)
{
    unsigned int slot = (unsigned int)self->number + 1;
    LOOP(ck_bytelock_read_lock(&bytelock, slot), ck_bytelock_read_unlock(&bytelock, slot),
         ck_bytelock_write_lock(&bytelock, slot), ck_bytelock_write_unlock(&bytelock))
}

/* Cohorts of spinlocks: one cohort, since the threads are on one node. */
static void cohort_lock(ck_spinlock_t *lock, void *context)
{
    (void)context;
    ck_spinlock_lock(lock);
}

static void cohort_unlock(ck_spinlock_t *lock, void *context)
{
    (void)context;
    ck_spinlock_unlock(lock);
}

static bool cohort_locked(ck_spinlock_t *lock, void *context)
{
    (void)context;
    return ck_spinlock_locked(lock);
}

CK_COHORT_PROTOTYPE(spin, cohort_lock, cohort_unlock, cohort_locked, cohort_lock, cohort_unlock, cohort_locked)
CK_RWCOHORT_WP_PROTOTYPE(spin)
CK_RWCOHORT_RP_PROTOTYPE(spin)
CK_RWCOHORT_NEUTRAL_PROTOTYPE(spin)

static ck_spinlock_t global_lock LINE = CK_SPINLOCK_INITIALIZER;
static ck_spinlock_t local_lock LINE = CK_SPINLOCK_INITIALIZER;
static CK_COHORT_INSTANCE(spin) LINE cohort;
static CK_RWCOHORT_WP_INSTANCE(spin) LINE cohort_wp;
static CK_RWCOHORT_RP_INSTANCE(spin) LINE cohort_rp;
static CK_RWCOHORT_NEUTRAL_INSTANCE(spin) LINE cohort_neutral;

static void run_rwcohort_wp(struct worker *self, long calls)
{
    LOOP(CK_RWCOHORT_WP_READ_LOCK(spin, &cohort_wp, &cohort, NULL, NULL),
         CK_RWCOHORT_WP_READ_UNLOCK(spin, &cohort_wp, &cohort, NULL, NULL),
         CK_RWCOHORT_WP_WRITE_LOCK(spin, &cohort_wp, &cohort, NULL, NULL),
         CK_RWCOHORT_WP_WRITE_UNLOCK(spin, &cohort_wp, &cohort, NULL, NULL))
}

static void run_rwcohort_rp(struct worker *self, long calls)
{
    LOOP(CK_RWCOHORT_RP_READ_LOCK(spin, &cohort_rp, &cohort, NULL, NULL),
         CK_RWCOHORT_RP_READ_UNLOCK(spin, &cohort_rp, &cohort, NULL, NULL),
         CK_RWCOHORT_RP_WRITE_LOCK(spin, &cohort_rp, &cohort, NULL, NULL),
         CK_RWCOHORT_RP_WRITE_UNLOCK(spin, &cohort_rp, &cohort, NULL, NULL))
}

static void run_rwcohort_neutral(struct worker *self, long calls)
{
    LOOP(CK_RWCOHORT_NEUTRAL_READ_LOCK(spin, &cohort_neutral, &cohort, NULL, NULL),
         CK_RWCOHORT_NEUTRAL_READ_UNLOCK(spin, &cohort_neutral, &cohort, NULL, NULL),
         CK_RWCOHORT_NEUTRAL_WRITE_LOCK(spin, &cohort_neutral, &cohort, NULL, NULL),
         CK_RWCOHORT_NEUTRAL_WRITE_UNLOCK(spin, &cohort_neutral, &cohort, NULL, NULL))
}

static ck_spinlock_mcs_t mcs LINE = CK_SPINLOCK_MCS_INITIALIZER;
static struct {
    ck_spinlock_mcs_context_t node;
} LINE nodes[MOST_THREADS];

static void run_mcs(struct worker *self, long calls)
{
    ck_spinlock_mcs_context_t *node = &nodes[self->number].node;
    MUTEX_LOOP(ck_spinlock_mcs_lock(&mcs, node), ck_spinlock_mcs_unlock(&mcs, node))
}

static ck_spinlock_ticket_t ticket LINE = CK_SPINLOCK_TICKET_INITIALIZER;

static void run_ticket(struct worker *self, long calls)
{
    MUTEX_LOOP(ck_spinlock_ticket_lock(&ticket), ck_spinlock_ticket_unlock(&ticket))
}

static ck_spinlock_clh_t *clh LINE;
static struct {
    ck_spinlock_clh_t node;
} LINE clh_nodes[MOST_THREADS + 1];
/* A thread continues with the node of its predecessor. */
static struct {
    ck_spinlock_clh_t *node;
} LINE clh_mine[MOST_THREADS];

static void run_clh(struct worker *self, long calls)
{
    ck_spinlock_clh_t *node = clh_mine[self->number].node;
    MUTEX_LOOP(ck_spinlock_clh_lock(&clh, node), ck_spinlock_clh_unlock(&node))
    clh_mine[self->number].node = node;
}

struct lock {
    const char *name;
    void (*run)(struct worker *self, long calls);
};

static const struct lock locks[] = {
    { "pthread_rwlock", run_pthread_rwlock },
    { "ck_rwlock", run_rwlock },
    { "ck_pflock", run_pflock },
    { "ck_brlock", run_brlock },
    { "ck_bytelock", run_bytelock },
    { "ck_rwcohort_wp", run_rwcohort_wp },
    { "ck_rwcohort_rp", run_rwcohort_rp },
    { "ck_rwcohort_neutral", run_rwcohort_neutral },
    { "pthread_mutex", run_pthread_mutex },
    { "ck_spinlock_mcs", run_mcs },
    { "ck_spinlock_ticket", run_ticket },
    { "ck_spinlock_clh", run_clh },
};

static void prepare(void)
{
    CK_COHORT_INIT(spin, &cohort, &global_lock, &local_lock, CK_COHORT_DEFAULT_LOCAL_PASS_LIMIT);
    CK_RWCOHORT_WP_INIT(spin, &cohort_wp, CK_RWCOHORT_WP_DEFAULT_WAIT_LIMIT);
    CK_RWCOHORT_RP_INIT(spin, &cohort_rp, CK_RWCOHORT_RP_DEFAULT_WAIT_LIMIT);
    CK_RWCOHORT_NEUTRAL_INIT(spin, &cohort_neutral);
    ck_spinlock_clh_init(&clh, &clh_nodes[MOST_THREADS].node);
    for (int i = 0; i < threads; i++) {
        ck_brlock_read_register(&brlock, &readers[i].reader);
        clh_mine[i].node = &clh_nodes[i].node;
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* The present task of the workers; none at the end. */
static const struct lock *wanted;
static double wanted_time;
static pthread_barrier_t start, finish;

static void bind_to_core(int number)
{
    cpu_set_t may, one;
    if (sched_getaffinity(0, sizeof may, &may))
        return;
    number %= CPU_COUNT(&may);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &may) && number-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static void *work(void *argument)
{
    struct worker *self = argument;
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(self->number + 1);
    bind_to_core(self->number);
    for (int i = 0; i < PATTERN; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self->writes[i] = (int)((state >> 11) % 100) < writers;
    }
    for (;;) {
        pthread_barrier_wait(&start);
        if (!wanted)
            return NULL;
        /* Chunks such that the clock is read every 10 to 100 us. */
        long chunk = 1;
        double last = now(), time;
        self->begin = last;
        self->calls = 0;
        do {
            wanted->run(self, chunk);
            self->calls += chunk;
            time = now();
            if (time - last < SHORT_CHUNK && chunk < MOST_CHUNK)
                chunk *= 2;
            else if (time - last > LONG_CHUNK && chunk > 1)
                chunk /= 2;
            last = time;
        } while (time - self->begin < wanted_time);
        self->end = time;
        pthread_barrier_wait(&finish);
    }
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

/* Runs every thread for that time; returns the time of a call, the median of the threads. */
static double batch(const struct lock *lock, double time)
{
    double each[MOST_THREADS];
    wanted = lock;
    wanted_time = time;
    pthread_barrier_wait(&start);
    pthread_barrier_wait(&finish);
    for (int i = 0; i < threads; i++)
        each[i] = (workers[i].end - workers[i].begin) / workers[i].calls;
    return median(each, threads);
}

static double measure(const struct lock *lock, double budget)
{
    double target = budget / BATCHES, times[BATCHES];
    batch(lock, target / 2);
    for (int i = 0; i < BATCHES; i++)
        times[i] = batch(lock, target);
    return median(times, BATCHES);
}

int main(int argc, char **argv)
{
    if (argc < 4 || (threads = atoi(argv[2])) < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "use: ck BUDGET_NS THREADS WRITERS LOCK..., with at most %d threads\n", MOST_THREADS);
        return 2;
    }
    /* This process ends with the process that started it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(ALARM_SECONDS);
    writers = atoi(argv[3]);
    printf("version Concurrency Kit %s, glibc %s\n", CK_VERSION, gnu_get_libc_version());
    fflush(stdout);
    prepare();
    pthread_barrier_init(&start, NULL, (unsigned int)threads + 1);
    pthread_barrier_init(&finish, NULL, (unsigned int)threads + 1);
    for (int i = 0; i < threads; i++) {
        workers[i].number = i;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
            fprintf(stderr, "a thread cannot be made\n");
            return 1;
        }
    }
    for (int i = 4; i < argc; i++) {
        const struct lock *lock = NULL;
        for (size_t j = 0; j < sizeof locks / sizeof *locks; j++)
            if (!strcmp(locks[j].name, argv[i]))
                lock = &locks[j];
        if (!lock) {
            fprintf(stderr, "there is no lock '%s'\n", argv[i]);
            return 2;
        }
        alarm(ALARM_SECONDS);
        printf("begin %s\n", lock->name);
        fflush(stdout);
        double time = measure(lock, atof(argv[1]));
        printf("row %s %.3f\n", lock->name, time);
        fflush(stdout);
    }
    printf("done\n");
    fflush(stdout);
    wanted = NULL;
    pthread_barrier_wait(&start);
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    return 0;
}
