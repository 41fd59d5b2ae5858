/*
 * The standard's promises besides the usual calls (calls.c), datatypes and errors: conformance [native]
 *
 * With `native`, also what only native windows promise: errors of ranges, and hints that the hosts do not follow.
 */
#include "check.h"
#include <sys/wait.h>

static int native;

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* Every operation on the null rank, in every kind of epoch, does nothing. */
static void operate_on_null(MPI_Win win, int with_requests)
{
    int64_t value = 3, compare = 4, result = 5;
    MPI_Request made[4];
    MPI_Put(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win);
    MPI_Get(&result, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win);
    MPI_Accumulate(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Get_accumulate(&value, 1, MPI_INT64_T, &result, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Fetch_and_op(&value, &result, MPI_INT64_T, MPI_PROC_NULL, 0, MPI_SUM, win);
    MPI_Compare_and_swap(&value, &compare, &result, MPI_INT64_T, MPI_PROC_NULL, 0, win);
    if (with_requests) {
        MPI_Rput(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win, &made[0]);
        MPI_Rget(&result, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win, &made[1]);
        MPI_Raccumulate(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, MPI_SUM, win, &made[2]);
        MPI_Rget_accumulate(&value, 1, MPI_INT64_T, &result, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, MPI_SUM, win, &made[3]);
        MPI_Waitall(4, made, MPI_STATUSES_IGNORE);
    }
    CHECK(value, 3);
    CHECK(compare, 4);
    CHECK(result, 5);
}

static void null_rank(void)
{
    MPI_Win win;
    MPI_Group all;
    int64_t *words;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    memset(words, 7, 64);
    MPI_Win_fence(0, win);
    operate_on_null(win, 0);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_get_group(win, &all);
    MPI_Win_post(all, 0, win);
    MPI_Win_start(all, 0, win);
    operate_on_null(win, 0);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    MPI_Group_free(&all);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    operate_on_null(win, 1);
    MPI_Win_unlock(rank, win);
    MPI_Win_lock_all(0, win);
    operate_on_null(win, 1);
    MPI_Win_unlock_all(win);
    CHECK(words[3], 0x0707070707070707);
    MPI_Win_free(&win);
    passed("conformance", "the null rank");
}

/* Regions of a dynamic window: several, attached and detached in another order, touching each other. */
static void regions(void)
{
    enum { REGIONS = 5, WORDS = 32 };
    MPI_Win win;
    int64_t *memory[REGIONS], value, got;
    MPI_Aint mine[REGIONS], *theirs = malloc(sizeof(MPI_Aint) * REGIONS * (size_t)size);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < REGIONS; i++) {
            memory[i] = calloc(WORDS, 8);
            CHECK(MPI_Win_attach(win, memory[i], 8 * WORDS), MPI_SUCCESS);
            MPI_Get_address(memory[i], &mine[i]);
        }
        MPI_Allgather(mine, REGIONS, MPI_AINT, theirs, REGIONS, MPI_AINT, MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
        for (int i = 0; i < REGIONS; i++) {
            value = 100 * rank + 10 * i + round;
            CHECK(MPI_Put(&value, 1, MPI_INT64_T, after, theirs[after * REGIONS + i] + 8 * (WORDS - 1), 1, MPI_INT64_T, win), MPI_SUCCESS);
            MPI_Win_flush(after, win);
            CHECK(MPI_Get(&got, 1, MPI_INT64_T, after, theirs[after * REGIONS + i] + 8 * (WORDS - 1), 1, MPI_INT64_T, win), MPI_SUCCESS);
            MPI_Win_flush(after, win);
            CHECK(got, value);
        }
        MPI_Win_unlock(after, win);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = REGIONS - 1; i >= 0; i--) {
            int region = (i + round) % REGIONS;
            MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
            CHECK(memory[region][WORDS - 1], 100 * before + 10 * region + round);
            MPI_Win_unlock(rank, win);
            CHECK(MPI_Win_detach(win, memory[region]), MPI_SUCCESS);
        }
        for (int i = 0; i < REGIONS; i++)
            free(memory[i]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&win);
    free(theirs);
    passed("conformance", "regions");
}

/* More windows than a program has, over several communicators, alive at a time and freed in another order. */
static void hundreds(void)
{
    enum { MANY = 120 };
    MPI_Win wins[MANY];
    int64_t *words[MANY], one = 1;
    MPI_Comm half, each;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    for (int i = 0; i < MANY; i++) {
        each = i % 3 == 0 ? MPI_COMM_SELF : i % 3 == 1 ? half : MPI_COMM_WORLD;
        MPI_Win_allocate(8 * (1 + i % 4), 8, MPI_INFO_NULL, each, &words[i], &wins[i]);
        words[i][0] = 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, wins[i]);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, wins[i]);
        MPI_Win_unlock(0, wins[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) {
        MPI_Group group;
        int me, ranks;
        MPI_Win_get_group(wins[i], &group);
        MPI_Group_rank(group, &me);
        MPI_Group_size(group, &ranks);
        MPI_Group_free(&group);
        MPI_Win_lock(MPI_LOCK_SHARED, me, 0, wins[i]);
        CHECK(words[i][0], me == 0 ? ranks : 0);
        MPI_Win_unlock(me, wins[i]);
    }
    for (int i = 0; i < MANY; i++)
        MPI_Win_free(&wins[i * 7 % MANY]);
    MPI_Comm_free(&half);
    passed("conformance", "hundreds of windows");
}

/* Hints that change what a window has to be. */
static void hints(void)
{
    MPI_Info info, found;
    MPI_Win win;
    char *memory;
    MPI_Aint bytes;
    int unit;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "64");
    MPI_Info_set(info, "same_size", "true");
    MPI_Info_set(info, "accumulate_ordering", "none");
    MPI_Info_set(info, "a_key_that_nobody_knows", "value");
    MPI_Win_allocate(100, 1, info, MPI_COMM_WORLD, &memory, &win);
    if (native)
        CHECK((intptr_t)memory % 64, 0);
    MPI_Win_set_info(win, info);
    CHECK(MPI_Win_get_info(win, &found), MPI_SUCCESS);
    MPI_Info_free(&found);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
    /* Parts of a shared window that need not touch. */
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    MPI_Win_allocate_shared(24, 1, info, MPI_COMM_WORLD, &memory, &win);
    memset(memory, rank + 1, 24);
    MPI_Win_fence(0, win);
    MPI_Win_shared_query(win, after, &bytes, &unit, &memory);
    if (native)
        CHECK(bytes, 24);
    CHECK(memory[0], after + 1);
    CHECK(memory[23], after + 1);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
    passed("conformance", "hints");
}

/* Many requests at a time, beside messages, completed in several ways. */
static void many_requests(void)
{
    enum { MANY = 64 };
    MPI_Win win;
    int64_t *words, values[MANY], back[MANY];
    MPI_Request made[MANY + 2];
    int indices[MANY + 2], some, done = 0, sent = rank, got = -1;
    MPI_Win_allocate(8 * MANY, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < MANY; i++) {
        values[i] = 1000 * rank + i;
        MPI_Rput(&values[i], 1, MPI_INT64_T, after, i, 1, MPI_INT64_T, win, &made[i]);
    }
    MPI_Irecv(&got, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &made[MANY]);
    MPI_Isend(&sent, 1, MPI_INT, after, 1, MPI_COMM_WORLD, &made[MANY + 1]);
    while (done < MANY + 2) {
        MPI_Waitsome(MANY + 2, made, &some, indices, MPI_STATUSES_IGNORE);
        for (int i = 0; i < some; i++)
            CHECK(made[indices[i]] == MPI_REQUEST_NULL, 1);
        done += some;
    }
    CHECK(got, before);
    MPI_Win_flush(after, win);
    for (int i = 0; i < MANY; i++)
        MPI_Rget(&back[i], 1, MPI_INT64_T, after, i, 1, MPI_INT64_T, win, &made[i]);
    for (int flag = 0; !flag;)
        MPI_Testall(MANY, made, &flag, MPI_STATUSES_IGNORE);
    CHECK(memcmp(values, back, sizeof values), 0);
    /* A request of a status. */
    MPI_Status status;
    MPI_Rget(&back[0], 1, MPI_INT64_T, after, 1, 1, MPI_INT64_T, win, &made[0]);
    MPI_Wait(&made[0], &status);
    CHECK(back[0], 1000 * rank + 1);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    passed("conformance", "many requests");
}

/* Accumulates of one origin to one place keep their order, also as replacements. */
static void ordering(void)
{
    MPI_Win win;
    int64_t *words, value, old;
    MPI_Win_allocate(128 * size, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    memset(words, 0, 128 * (size_t)size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 1; i <= 200; i++) {
        value = i;
        MPI_Get_accumulate(&value, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, after, rank, 1, MPI_INT64_T, MPI_REPLACE, win);
        MPI_Win_flush(after, win);
        CHECK(old, i - 1);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(words[before], 200);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    passed("conformance", "ordering");
}

/* Exposure epochs are tested before, and after, their accesses are complete. */
static void tests(void)
{
    MPI_Win win;
    MPI_Group all, group;
    int64_t *words, value = 9;
    int flag, zero = 0;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    words[0] = 0;
    MPI_Win_get_group(win, &all);
    if (size > 1 && rank == 0) {
        MPI_Group_excl(all, 1, &zero, &group);
        MPI_Win_post(group, 0, win);
        MPI_Win_test(win, &flag);
        CHECK(flag, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_wait(win);
        CHECK(words[0], 9);
        MPI_Group_free(&group);
    } else if (size > 1) {
        MPI_Group_incl(all, 1, &zero, &group);
        MPI_Win_start(group, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
        MPI_Win_complete(win);
        MPI_Group_free(&group);
    }
    MPI_Group_free(&all);
    MPI_Win_free(&win);
    passed("conformance", "tests of exposure epochs");
}

/* A child process that uses no MPI, in the middle of an epoch. */
static void forked(void)
{
    MPI_Win win;
    int64_t *words, value = 5 + rank;
    int status = -1;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    words[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    MPI_Put(&value, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    while (waitpid(child, &status, 0) < 0)
        ;
    CHECK(WEXITSTATUS(status), 7);
    MPI_Win_unlock(after, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(words[0], 5 + before);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    passed("conformance", "a forked child");
}

#if MPI_VERSION >= 4
static void large_counts(void)
{
    MPI_Win win;
    int64_t *words, value = 40 + rank, got = 0, one = 1, old = -1;
    MPI_Request request;
    MPI_Aint bytes, unit;
    int64_t *there;
    MPI_Win_allocate_shared_c(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    memset(words, 0, 64);
    MPI_Win_shared_query_c(win, after, &bytes, &unit, &there);
    CHECK(bytes, 64);
    CHECK(unit, 8);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    MPI_Put_c(&value, 1, MPI_INT64_T, after, 1, 1, MPI_INT64_T, win);
    MPI_Win_flush(after, win);
    CHECK(there[1], value);
    MPI_Get_c(&got, 1, MPI_INT64_T, after, 1, 1, MPI_INT64_T, win);
    MPI_Win_flush(after, win);
    CHECK(got, value);
    MPI_Accumulate_c(&one, 1, MPI_INT64_T, after, 2, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Get_accumulate_c(&one, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, after, 2, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_flush(after, win);
    CHECK(old, 1);
    MPI_Rput_c(&value, 1, MPI_INT64_T, after, 3, 1, MPI_INT64_T, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(after, win);
    MPI_Rget_c(&got, 1, MPI_INT64_T, after, 3, 1, MPI_INT64_T, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got, value);
    MPI_Raccumulate_c(&one, 1, MPI_INT64_T, after, 4, 1, MPI_INT64_T, MPI_SUM, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Rget_accumulate_c(&one, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, after, 4, 1, MPI_INT64_T, MPI_SUM, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(old, 1);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    passed("conformance", "large counts");
}
#endif

/* Errors of displacements and ranges, by class. The window's part is as it was. */
static void ranges(void)
{
    MPI_Win win;
    MPI_Datatype vector;
    int64_t *words, values[16] = { 0 }, result;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    memset(words, 1, 64);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_vector(2, 1, 8, MPI_INT64_T, &vector);
    MPI_Type_commit(&vector);
    MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win);
    CHECK(class_of(MPI_Put(values, 1, MPI_INT64_T, after, 8, 1, MPI_INT64_T, win)), MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Put(values, 9, MPI_INT64_T, after, 0, 9, MPI_INT64_T, win)), MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Get(values, 2, MPI_INT64_T, after, 7, 2, MPI_INT64_T, win)), MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Get(values, 2, MPI_INT64_T, after, 0, 1, vector, win)), MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Put(values, 2, MPI_INT64_T, after, 0, 1, vector, win)), MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Accumulate(values, 1, MPI_INT64_T, after, 1 << 20, 1, MPI_INT64_T, MPI_SUM, win)), MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Accumulate(values, 2, MPI_INT64_T, after, 0, 1, vector, MPI_SUM, win)), MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Fetch_and_op(values, &result, MPI_INT64_T, after, 8, MPI_SUM, win)), MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Compare_and_swap(values, values, &result, MPI_INT64_T, after, 9, win)), MPI_ERR_RMA_RANGE);
    CHECK(MPI_Put(values, -1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win) != MPI_SUCCESS, 1);
    CHECK(MPI_Put(values, 1, MPI_INT64_T, after, -1, 1, MPI_INT64_T, win) != MPI_SUCCESS, 1);
    CHECK(class_of(MPI_Put(values, 1, MPI_INT64_T, size, 0, 1, MPI_INT64_T, win)), MPI_ERR_RANK);
    /* The last word, and no bytes at the end, are inside. */
    CHECK(MPI_Get(values, 1, MPI_INT64_T, after, 7, 1, MPI_INT64_T, win), MPI_SUCCESS);
    CHECK(MPI_Get(values, 0, MPI_INT64_T, after, 8, 0, MPI_INT64_T, win), MPI_SUCCESS);
    MPI_Win_unlock(after, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int i = 0; i < 8; i++)
        CHECK(words[i], 0x0101010101010101);
    MPI_Win_unlock(rank, win);
    MPI_Type_free(&vector);
    MPI_Win_free(&win);
    passed("conformance", "ranges");
}

/* A window of 8 words, and the displacement of the next rank's first word. */
static MPI_Aint make_words(MPI_Win *win, const char *kind, int64_t **words)
{
    MPI_Aint first = 0;
    if (!strcmp(kind, "allocate")) {
        MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, words, win);
    } else {
        *words = malloc(64);
        if (!strcmp(kind, "create")) {
            MPI_Win_create(*words, 64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win);
        } else {
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win);
            MPI_Win_attach(*win, *words, 64);
            MPI_Get_address(*words, &first);
            MPI_Sendrecv_replace(&first, 1, MPI_AINT, before, 0, after, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    memset(*words, 0, 64);
    return first;
}

static void free_words(MPI_Win *win, const char *kind, int64_t *words)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(kind, "dynamic"))
        MPI_Win_detach(*win, words);
    MPI_Win_free(win);
    if (strcmp(kind, "allocate"))
        free(words);
}

/* Checks the next rank's words. */
static void expect_words(MPI_Win win, MPI_Aint first, int line, const int64_t *expected)
{
    int64_t found[8];
    MPI_Win_flush(after, win);
    MPI_Get(found, 8, MPI_INT64_T, after, first, 8, MPI_INT64_T, win);
    MPI_Win_flush(after, win);
    for (int i = 0; i < 8; i++) {
        if (found[i] != expected[i])
            fprintf(stderr, "line %d, word %d\n", line, i);
        CHECK(found[i], expected[i]);
    }
}

#define WORDS(...) expect_words(win, first, __LINE__, (int64_t[8]) { __VA_ARGS__ })

/* Arriving data may be shorter than their buffer: the rest of the buffer stays as it is. MPICH 4.0 gets as much as the origin's buffer
 * takes, and both hosts accumulate as many elements as the target's buffer has: they read on beyond the other end. */
static void shorter(const char *kind)
{
    MPI_Win win;
    MPI_Datatype pairs;
    int64_t *words, values[4] = { 1, 2, 3, 4 }, got[4] = { -1, -1, -1, -1 };
    MPI_Aint first = make_words(&win, kind, &words), word = strcmp(kind, "dynamic") ? 1 : 8;
    MPI_Type_vector(2, 1, 2, MPI_INT64_T, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    MPI_Put(values, 1, MPI_INT64_T, after, first, 4, MPI_INT64_T, win);
    WORDS(1);
    MPI_Put(values, 3, MPI_INT64_T, after, first + 2 * word, 2, pairs, win);
    WORDS(1, 0, 1, 0, 2, 3);
    if (native) {
        MPI_Get(got, 3, MPI_INT64_T, after, first, 2, MPI_INT64_T, win);
        MPI_Win_flush(after, win);
        CHECK(got[0], 1);
        CHECK(got[1], 0);
        CHECK(got[2], -1);
        MPI_Get(got, 2, pairs, after, first + 4 * word, 2, MPI_INT64_T, win);
        MPI_Win_flush(after, win);
        CHECK(got[0], 2);
        CHECK(got[1], 0);
        CHECK(got[2], 3);
        CHECK(got[3], -1);
        MPI_Accumulate(values + 3, 1, MPI_INT64_T, after, first, 3, MPI_INT64_T, MPI_SUM, win);
        WORDS(5, 0, 1, 0, 2, 3);
        MPI_Accumulate(values + 2, 1, MPI_INT64_T, after, first + 4 * word, 1, pairs, MPI_SUM, win);
        WORDS(5, 0, 1, 0, 5, 3);
        MPI_Accumulate(values + 1, 1, MPI_INT64_T, after, first, 2, MPI_INT64_T, MPI_REPLACE, win);
        WORDS(2, 0, 1, 0, 5, 3);
        MPI_Get_accumulate(values, 1, MPI_INT64_T, got, 2, MPI_INT64_T, after, first + 4 * word, 2, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_flush(after, win);
        CHECK(got[0], 5);
        CHECK(got[1], 3);
        WORDS(2, 0, 1, 0, 6, 3);
    }
    MPI_Win_unlock(after, win);
    MPI_Type_free(&pairs);
    free_words(&win, kind, words);
    passed(kind, "shorter than its buffer");
}

/* The whole buffer that a call describes is in the window, and takes what arrives. Otherwise no byte is written, at either end. Of the
 * hosts, neither looks at the window's end. MPICH 4.0 writes what fits, and ends the program if a result is too short. */
static void sizes(const char *kind)
{
    MPI_Win win;
    MPI_Datatype pairs, huge;
    int64_t *words, values[4] = { 1, 2, 3, 4 }, got[4] = { -1, -1, -1, -1 };
    MPI_Aint first = make_words(&win, kind, &words), word = strcmp(kind, "dynamic") ? 1 : 8, last = first + 7 * word;
    const int range = MPI_ERR_RMA_RANGE, truncate = MPI_ERR_TRUNCATE;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Type_vector(2, 1, 2, MPI_INT64_T, &pairs);
    MPI_Type_commit(&pairs);
    /* 8 TiB, which nothing may allocate. */
    MPI_Type_contiguous(1 << 20, MPI_INT64_T, &huge);
    MPI_Type_commit(&huge);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    CHECK(class_of(MPI_Put(values, 1, MPI_INT64_T, after, last, 4, MPI_INT64_T, win)), range);
    CHECK(class_of(MPI_Put(values, 1, MPI_INT64_T, after, first, 9, MPI_INT64_T, win)), range);
    CHECK(class_of(MPI_Put(values, 1, MPI_INT64_T, after, last, 1, pairs, win)), range);
    CHECK(class_of(MPI_Put(values, 0, MPI_INT64_T, after, last, 2, MPI_INT64_T, win)), range);
    CHECK(class_of(MPI_Accumulate(values, 1, MPI_INT64_T, after, last, 2, MPI_INT64_T, MPI_SUM, win)), range);
    CHECK(class_of(MPI_Accumulate(values, 1, MPI_INT64_T, after, last, 1, pairs, MPI_REPLACE, win)), range);
    CHECK(class_of(MPI_Accumulate(values, 1, MPI_INT64_T, after, first, 1 << 20, huge, MPI_SUM, win)), range);
    CHECK(class_of(MPI_Get(got, 1 << 20, huge, after, first, 1 << 20, huge, win)), range);
    CHECK(class_of(MPI_Get(got, 4, MPI_INT64_T, after, last, 2, MPI_INT64_T, win)), range);
    WORDS(0);
    CHECK(class_of(MPI_Put(values, 4, MPI_INT64_T, after, first, 1, MPI_INT64_T, win)), truncate);
    CHECK(class_of(MPI_Put(values, 3, MPI_INT64_T, after, first, 1, pairs, win)), truncate);
    CHECK(class_of(MPI_Put(values, 2, pairs, after, first, 3, MPI_INT64_T, win)), truncate);
    CHECK(class_of(MPI_Get(got, 1, MPI_INT64_T, after, first, 4, MPI_INT64_T, win)), truncate);
    CHECK(class_of(MPI_Get(got, 1, pairs, after, first, 3, MPI_INT64_T, win)), truncate);
    CHECK(class_of(MPI_Accumulate(values, 2, MPI_INT64_T, after, first, 1, MPI_INT64_T, MPI_SUM, win)), truncate);
    CHECK(class_of(MPI_Accumulate(values, 3, MPI_INT64_T, after, first, 1, pairs, MPI_REPLACE, win)), truncate);
    CHECK(class_of(MPI_Get_accumulate(values, 2, MPI_INT64_T, got, 1, MPI_INT64_T, after, first, 2, MPI_INT64_T, MPI_SUM, win)), truncate);
    CHECK(class_of(MPI_Get_accumulate(values, 3, MPI_INT64_T, got, 2, MPI_INT64_T, after, first, 2, MPI_INT64_T, MPI_SUM, win)), truncate);
    CHECK(class_of(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, got, 1, MPI_INT64_T, after, first, 2, MPI_INT64_T, MPI_NO_OP, win)), truncate);
    WORDS(0);
    for (int i = 0; i < 4; i++)
        CHECK(got[i], -1);
    /* A result may be longer than what it gets. */
    CHECK(MPI_Get_accumulate(values, 2, MPI_INT64_T, got, 3, MPI_INT64_T, after, first, 2, MPI_INT64_T, MPI_SUM, win), MPI_SUCCESS);
    WORDS(1, 2);
    CHECK(got[0], 0);
    CHECK(got[1], 0);
    CHECK(got[2], -1);
    MPI_Win_unlock(after, win);
    MPI_Type_free(&huge);
    MPI_Type_free(&pairs);
    free_words(&win, kind, words);
    passed(kind, "sizes");
}

/* Memory that the machine does not have, at one rank or at all. Of the hosts, MPICH 4.0 and Open MPI 4.1 have other classes on one rank, and
 * several ranks end in the memory that is not there. */
static void too_large(void)
{
    const MPI_Aint huge = (MPI_Aint)1 << 46;
    MPI_Win win;
    int64_t *words;
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
    int rule = file ? fgetc(file) : 0;
    if (file)
        fclose(file);
    if (rule == '1')
        return; /* The machine's owner wants promises without memory. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Win_allocate(huge, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win)), MPI_ERR_NO_MEM);
    CHECK(class_of(MPI_Win_allocate(rank ? 64 : huge, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win)), MPI_ERR_NO_MEM);
    CHECK(class_of(MPI_Win_allocate_shared(huge, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win)), MPI_ERR_NO_MEM);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    MPI_Win_free(&win);
    passed("conformance", "too large");
}

/* Calls on no window return the class that the standard names, as the host does. */
static void no_window(void)
{
    MPI_Win none = MPI_WIN_NULL;
    int64_t value = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, none)), MPI_ERR_WIN);
    CHECK(class_of(MPI_Win_fence(0, none)), MPI_ERR_WIN);
    CHECK(class_of(MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, none)), MPI_ERR_WIN);
    CHECK(class_of(MPI_Win_free(&none)), MPI_ERR_WIN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    passed("conformance", "no window");
}

/* Operations whose buffers are at no address, ahead of any other and after one of the same type. */
static void no_buffers(void)
{
    MPI_Win win;
    int64_t *words, one = 1;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < 2; round++) {
        CHECK(class_of(MPI_Put(NULL, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win)), MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Get(NULL, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win)), MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Put(NULL, 3, MPI_INT64_T, after, 0, 3, MPI_INT64_T, win)), MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Get(NULL, 3, MPI_INT64_T, after, 0, 3, MPI_INT64_T, win)), MPI_ERR_BUFFER);
        for (int count = 1; count < 4; count += 2)
            CHECK(class_of(MPI_Accumulate(NULL, count, MPI_INT64_T, after, 0, count, MPI_INT64_T, MPI_SUM, win)),
                MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Fetch_and_op(NULL, &one, MPI_INT64_T, after, 0, MPI_SUM, win)), MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Fetch_and_op(&one, NULL, MPI_INT64_T, after, 0, MPI_SUM, win)), MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Compare_and_swap(NULL, &one, &one, MPI_INT64_T, after, 0, win)), MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Compare_and_swap(&one, NULL, &one, MPI_INT64_T, after, 0, win)), MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Compare_and_swap(&one, &one, NULL, MPI_INT64_T, after, 0, win)), MPI_ERR_BUFFER);
        /* No bytes need no address. */
        CHECK(MPI_Put(NULL, 0, MPI_INT64_T, after, 0, 0, MPI_INT64_T, win), MPI_SUCCESS);
        CHECK(MPI_Get(NULL, 0, MPI_INT64_T, after, 0, 0, MPI_INT64_T, win), MPI_SUCCESS);
        CHECK(MPI_Fetch_and_op(NULL, &one, MPI_INT64_T, after, 0, MPI_NO_OP, win), MPI_SUCCESS);
        CHECK(one, 0);
        MPI_Win_flush_all(win);
    }
    MPI_Win_unlock_all(win);
    CHECK(words[0], 0);
    MPI_Win_free(&win);
    passed("conformance", "no buffers");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    native = argc > 1 && !strcmp(argv[1], "native");
    null_rank();
    regions();
    hundreds();
    hints();
    many_requests();
    ordering();
    tests();
    forked();
#if MPI_VERSION >= 4
    large_counts();
#endif
    no_window();
    const char *kinds[] = { "allocate", "create", "dynamic" };
    for (int i = 0; i < 3; i++)
        shorter(kinds[i]);
    if (native) {
        ranges();
        for (int i = 0; i < 3; i++)
            sizes(kinds[i]);
        no_buffers();
        too_large();
    }
    return end();
}
