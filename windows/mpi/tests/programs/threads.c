/*
 * Calls of several threads: threads LEVEL
 *
 * With `serialized` the threads of a rank take turns; with `multiple` they call MPI at a time, each on windows of its own communicator,
 * all of them on one window, and one of them while another one waits.
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 40 };

static int many;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static MPI_Comm comms[THREADS];
static MPI_Win common;
static int64_t *common_words;

/* Failures of a thread are counted by itself. */
static long thread_failures[THREADS];

#define SAME(thread, what, expected)                                                                                       \
    do {                                                                                                                   \
        long long found = (long long)(what), wanted = (long long)(expected);                                               \
        if (found != wanted) {                                                                                             \
            thread_failures[thread]++;                                                                                     \
            fprintf(stderr, "%s:%d: rank %d, thread %d: %s is %lld, not %lld\n", __FILE__, __LINE__, rank, thread, #what,  \
                found, wanted);                                                                                            \
        }                                                                                                                  \
    } while (0)

static void each(void *(*body)(void *))
{
    pthread_t made[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&made[i], NULL, body, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(made[i], NULL);
        failures += thread_failures[i];
        thread_failures[i] = 0;
    }
}

static void in_turn(void)
{
    if (!many)
        pthread_mutex_lock(&turn);
}

static void next_turn(void)
{
    if (!many)
        pthread_mutex_unlock(&turn);
}

/* Windows that each thread makes, uses and frees, on its own communicator. */
static void *own_windows(void *argument)
{
    int thread = (int)(intptr_t)argument;
    for (int round = 0; round < 4; round++) {
        MPI_Win win;
        int64_t *words, one = 1, seen;
        MPI_Win_allocate(64, 8, MPI_INFO_NULL, comms[thread], &words, &win);
        memset(words, 0, 64);
        MPI_Barrier(comms[thread]);
        for (int i = 0; i < ROUNDS; i++) {
            int target = (rank + i) % size;
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
            MPI_Get(&seen, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
            MPI_Win_flush(target, win);
            seen++;
            MPI_Put(&seen, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
            MPI_Win_unlock(target, win);
            MPI_Win_lock_all(0, win);
            MPI_Accumulate(&one, 1, MPI_INT64_T, target, 1, 1, MPI_INT64_T, MPI_SUM, win);
            MPI_Win_unlock_all(win);
        }
        MPI_Win_fence(0, win);
        MPI_Put(&one, 1, MPI_INT64_T, after, 2, 1, MPI_INT64_T, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        SAME(thread, words[2], 1);
        SAME(thread, words[0], words[1]);
        int64_t mine = words[0], all;
        MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, comms[thread]);
        SAME(thread, all, ROUNDS * size);
        MPI_Win_free(&win);
    }
    return NULL;
}

/* One window, whose epoch all threads of a rank use. */
static void *one_epoch(void *argument)
{
    int thread = (int)(intptr_t)argument;
    int64_t one = 1, old, value = 100 * rank + thread, back = -1;
    for (int i = 0; i < ROUNDS; i++) {
        in_turn();
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, i % size, 0, MPI_SUM, common);
        MPI_Win_flush(i % size, common);
        SAME(thread, old >= 0 && old < (int64_t)THREADS * ROUNDS * size, 1);
        MPI_Put(&value, 1, MPI_INT64_T, after, 1 + thread, 1, MPI_INT64_T, common);
        MPI_Win_flush(after, common);
        MPI_Get(&back, 1, MPI_INT64_T, after, 1 + thread, 1, MPI_INT64_T, common);
        MPI_Win_flush_local(after, common);
        SAME(thread, back, value);
        next_turn();
    }
    return NULL;
}

/* The epochs of one window, begun and ended by different threads in turn. */
static void *turns(void *argument)
{
    int thread = (int)(intptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t seen;
        pthread_mutex_lock(&turn);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, i % size, 0, common);
        MPI_Get(&seen, 1, MPI_INT64_T, i % size, 0, 1, MPI_INT64_T, common);
        MPI_Win_flush(i % size, common);
        seen++;
        MPI_Put(&seen, 1, MPI_INT64_T, i % size, 0, 1, MPI_INT64_T, common);
        MPI_Win_unlock(i % size, common);
        pthread_mutex_unlock(&turn);
        SAME(thread, seen > 0, 1);
    }
    return NULL;
}

static MPI_Win awaited, used;

/* A thread waits for a lock that rank 0 holds until another thread of this rank has used another window, and sent a message. */
static void *waiting(void *argument)
{
    int thread = (int)(intptr_t)argument, token = 1;
    int64_t one = 1;
    if (thread == 0 && rank > 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, awaited);
        MPI_Win_unlock(0, awaited);
    }
    if (thread == 1 && rank > 0) {
        usleep(20000);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, used);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, used);
        MPI_Win_unlock(0, used);
        MPI_Send(&token, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    many = argc > 1 && !strcmp(argv[1], "multiple");
    alarm(240);
    MPI_Init_thread(&argc, &argv, many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    after = (rank + 1) % size;
    CHECK(provided >= (many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED), 1);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (many) {
        each(own_windows);
        passed("threads", "own windows");
    }

    make_window(64, 8, &common_words, &common);
    memset(common_words, 0, 64);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, common);
    each(one_epoch);
    MPI_Win_unlock_all(common);
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t mine, all;
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, common);
    mine = common_words[0];
    MPI_Win_unlock(rank, common);
    MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all, (int64_t)THREADS * ROUNDS * size);
    passed("threads", "one epoch");
    each(turns);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, common);
    mine = common_words[0];
    MPI_Win_unlock(rank, common);
    MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all, 2 * (int64_t)THREADS * ROUNDS * size);
    MPI_Win_free(&common);
    passed("threads", "turns");

    if (many) {
        int64_t *words, *more;
        int token;
        MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &awaited);
        MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &more, &used);
        more[0] = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, awaited);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            for (int i = 1; i < size; i++)
                MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, used);
            CHECK(more[0], size - 1);
            MPI_Win_unlock(0, used);
            MPI_Win_unlock(0, awaited);
        } else {
            each(waiting);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_free(&awaited);
        MPI_Win_free(&used);
        passed("threads", "one waits");
    }
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return end();
}
