/*
 * Cases of MPI-4.1's chapter on one-sided communication that no other program here has: chapter [managed|policy]
 *
 * With `managed`, also what the hosts do not check, or do otherwise, in windows whose data the library moves. With `policy`, only the epochs are the library's.
 * The rows of the table in windows/README.md:
 *
 * | row | case |
 * | --- | --- |
 * | MPI_Win_create, MPI_Win_allocate, MPI_Win_create_dynamic | calls.c; here memory(): odd addresses, sizes and units that differ |
 * | MPI_Win_allocate_shared, MPI_Win_shared_query | calls.c, native.c: part_sizes() |
 * | MPI_Win_attach, MPI_Win_detach | calls.c, conformance.c: regions(); here attaching() |
 * | MPI_Win_free | calls.c; errors.c for open epochs, left_open.c for windows that stay |
 * | MPI_Win_get_group | calls.c: properties() |
 * | MPI_Win_set_info, MPI_Win_get_info | conformance.c: hints(), choices.c; here all_hints() |
 * | MPI_Put, MPI_Get | calls.c, datatypes.c |
 * | MPI_Accumulate, MPI_Get_accumulate, MPI_Fetch_and_op, MPI_Compare_and_swap | calls.c, native.c, operations.c, datatypes.c |
 * | MPI_Rput, MPI_Rget, MPI_Raccumulate, MPI_Rget_accumulate | calls.c: requests(), conformance.c: many_requests(), datatypes.c |
 * | fence, start, complete, post, wait, test | calls.c: fences(), groups(); conformance.c: tests() |
 * | lock, unlock, lock_all, unlock_all, flushes, sync | calls.c: locks(), lock_alls() |
 * | names, attributes, keyvals | native.c: handles(); here attributes() |
 * | error handlers | errors.c; here handlers(), and `chapter fatal` for MPI_ERRORS_ARE_FATAL |
 * | large counts | conformance.c: large_counts() |
 * | MPI_MODE_NOCHECK of locks | calls.c: difficult() |
 * | asserts of fences, post and start | here asserts(); wrong_asserts() for those that a call does not take |
 * | info keys | here all_hints() |
 * | predefined attributes, flavors, models | calls.c: properties(); here attributes() |
 * | MPI_PROC_NULL | conformance.c: null_rank(), calls.c: difficult() |
 * | MPI_WIN_NULL, MPI_ERR_WIN | conformance.c: no_window() |
 * | operations, pair types | operations.c; here no_origin() for MPI_NO_OP |
 * | MPI_ERR_LOCKTYPE, MPI_ERR_RMA_SYNC, MPI_ERR_RANK | errors.c |
 * | MPI_ERR_ASSERT | here wrong_asserts() |
 * | MPI_ERR_RMA_RANGE, MPI_ERR_COUNT | conformance.c: ranges(); here attaching() |
 * | MPI_ERR_RMA_ATTACH, MPI_ERR_RMA_FLAVOR, MPI_ERR_OP, MPI_ERR_GROUP, MPI_ERR_SIZE, MPI_ERR_DISP | here attaching(), classes() |
 * | MPI_ERR_RMA_CONFLICT | here conflict() |
 * | MPI_ERR_BASE | here no_base(): the library leaves such a window to the host, and has no error of its own |
 * | MPI_ERR_RMA_SHARED, MPI_ERR_NO_MEM | no case: a window that the library cannot make is the host's, and so is the error (docs/mpi-programs.md) |
 * | one access epoch for each window and rank | errors.c |
 * | epochs on different windows | calls.c: communicators() |
 * | a lock of oneself, exclusion, completion at unlock and flush | calls.c: locks(), contention.c |
 * | requests and buffers | calls.c: requests(), conformance.c: many_requests() |
 * | accumulates are atomic and ordered | native.c: layouts(), conformance.c: ordering(); here mixed() |
 * | overlapping puts | here overlapping() |
 * | the target's type may be freed after the call | here freed_type() |
 * | windows of no bytes, one rank | calls.c: uneven(), all programs with 1 rank |
 * | negative displacements on dynamic windows | here backwards() |
 * | operations complete while the target makes no call | busy.c |
 * | several windows over one memory | here overlapping_windows(), shared_memory() |
 *
 * What is no row, but has to be right: datatypes.c (every constructor, MPI_BOTTOM), operations.c (padding of pairs stays), threads.c,
 * aborted.c, conformance.c: forked(), hundreds(), and the Fortran programs.
 */
#include "check.h"

/* Whether the library moves the data, and whether the epochs are its own. */
static int managed, epochs;

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* Memory of the program at odd addresses, with sizes and units that differ, and some of no bytes. MPICH 4.0 writes elsewhere then. */
static void memory(void)
{
    char *room = calloc(1, 256), *part = room + 1 + 2 * (rank % 3);
    int unit = 1 + 2 * (rank % 2), bytes = rank % 4 == 3 ? 0 : 60 + rank;
    char value = (char)(10 + rank), got = 0;
    MPI_Win win;
    MPI_Win_create(bytes ? part : NULL, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    if (after % 4 != 3)
        MPI_Put(&value, 1, MPI_CHAR, after, 7, 1, MPI_CHAR, win);
    MPI_Win_fence(0, win);
    if (rank % 4 != 3)
        CHECK(part[7 * unit], 10 + before);
    if (after % 4 != 3)
        MPI_Get(&got, 1, MPI_CHAR, after, 7, 1, MPI_CHAR, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (after % 4 != 3)
        CHECK(got, value);
    MPI_Win_free(&win);
    free(room);
    passed("chapter", "memory of the program");
}

/* Two windows over the same memory. MPICH 4.0 reads elsewhere through the second one. */
static void overlapping_windows(void)
{
    MPI_Win first, second;
    int64_t *words = aligned_alloc(64, 128), value = 70 + rank, got = -1;
    memset(words, 0, 128);
    MPI_Win_create(words, 128, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &first);
    MPI_Win_create(words + 8, 32, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &second);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, first);
    MPI_Put(&value, 1, MPI_INT64_T, after, 9, 1, MPI_INT64_T, first);
    MPI_Win_unlock(after, first);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, after, 0, second);
    MPI_Get(&got, 1, MPI_INT64_T, after, 1, 1, MPI_INT64_T, second);
    MPI_Win_unlock(after, second);
    CHECK(got, value);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&first);
    MPI_Win_free(&second);
    free(words);
    passed("chapter", "windows that overlap");
}

/* A window over memory of another window. */
static void shared_memory(void)
{
    MPI_Win first, third;
    int64_t *below, value = 70 + rank;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &below, &first);
    memset(below, 0, 64);
    MPI_Win_create(below, 64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &third);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, third);
    MPI_Put(&value, 1, MPI_INT64_T, after, 5, 1, MPI_INT64_T, third);
    MPI_Win_unlock(after, third);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, first);
    CHECK(below[5], 70 + before);
    MPI_Win_unlock(rank, first);
    MPI_Win_free(&third);
    MPI_Win_free(&first);
    passed("chapter", "a window over a window");
}

/* Memory that may be attached, and memory that is not there. */
static void attaching(void)
{
    MPI_Win win, other;
    int64_t *words = calloc(16, 8), *own, value = 1, got = -1;
    MPI_Aint here, *there = malloc(sizeof(MPI_Aint) * (size_t)size);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    /* There is no memory. Both hosts have MPI_ERR_ARG for it. */
    CHECK(class_of(MPI_Win_attach(win, NULL, 8)), managed ? MPI_ERR_RMA_ATTACH : MPI_ERR_ARG);
    CHECK(MPI_Win_attach(win, words, 64), MPI_SUCCESS);
    MPI_Get_address(words, &here);
    MPI_Allgather(&here, 1, MPI_AINT, there, 1, MPI_AINT, MPI_COMM_WORLD);
    if (managed) {
        CHECK(class_of(MPI_Win_attach(win, words + 7, 64)), MPI_ERR_RMA_ATTACH);
        CHECK(class_of(MPI_Win_attach(win, words, 64)), MPI_ERR_RMA_ATTACH);
        CHECK(class_of(MPI_Win_attach(win, words, -1)), MPI_ERR_SIZE);
        /* Memory that was never attached. The hosts accept that, and Open MPI refuses no bytes at no address. */
        CHECK(class_of(MPI_Win_detach(win, words + 1)), MPI_ERR_RMA_ATTACH);
        CHECK(class_of(MPI_Win_detach(win, NULL)), MPI_ERR_RMA_ATTACH);
        CHECK(MPI_Win_attach(win, NULL, 0), MPI_SUCCESS);
        CHECK(MPI_Win_detach(win, NULL), MPI_SUCCESS);
        CHECK(class_of(MPI_Win_detach(win, NULL)), MPI_ERR_RMA_ATTACH);
        /* No bytes are attached anywhere, also inside of others. */
        CHECK(MPI_Win_attach(win, words + 3, 0), MPI_SUCCESS);
        CHECK(MPI_Win_detach(win, words + 3), MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win);
        CHECK(class_of(MPI_Put(&value, 1, MPI_INT64_T, after, there[after] + 64, 1, MPI_INT64_T, win)), MPI_ERR_RMA_RANGE);
        CHECK(class_of(MPI_Put(&value, 1, MPI_INT64_T, after, there[after] - 4, 1, MPI_INT64_T, win)), MPI_ERR_RMA_RANGE);
        CHECK(class_of(MPI_Get(&got, 1, MPI_INT64_T, after, there[after] + 60, 1, MPI_INT64_T, win)), MPI_ERR_RMA_RANGE);
        CHECK(class_of(MPI_Accumulate(&value, 1, MPI_INT64_T, after, 8, 1, MPI_INT64_T, MPI_SUM, win)), MPI_ERR_RMA_RANGE);
        MPI_Win_unlock(after, win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* Two regions that touch are one to an access. */
    CHECK(MPI_Win_attach(win, words + 8, 64), MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (managed) {
        int64_t two[2] = { 5 + rank, 6 + rank }, back[2] = { 0, 0 };
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
        CHECK(MPI_Put(two, 2, MPI_INT64_T, after, there[after] + 56, 2, MPI_INT64_T, win), MPI_SUCCESS);
        MPI_Win_flush(after, win);
        CHECK(MPI_Get(back, 2, MPI_INT64_T, after, there[after] + 56, 2, MPI_INT64_T, win), MPI_SUCCESS);
        MPI_Win_unlock(after, win);
        CHECK(back[0], 5 + rank);
        CHECK(back[1], 6 + rank);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_Win_detach(win, words), MPI_SUCCESS);
    CHECK(MPI_Win_detach(win, words + 8), MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (managed) {
        MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win);
        CHECK(class_of(MPI_Get(&got, 1, MPI_INT64_T, after, there[after], 1, MPI_INT64_T, win)), MPI_ERR_RMA_RANGE);
        MPI_Win_unlock(after, win);
        MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &other);
        MPI_Win_set_errhandler(other, MPI_ERRORS_RETURN);
        CHECK(class_of(MPI_Win_attach(other, words, 64)), MPI_ERR_RMA_FLAVOR);
        CHECK(class_of(MPI_Win_detach(other, words)), MPI_ERR_RMA_FLAVOR);
        MPI_Win_free(&other);
    }
    MPI_Win_free(&win);
    free(words);
    free(there);
    passed("chapter", "attached memory");
}

/* Displacements on a dynamic window that are negative in a type, and a type of the target in attached memory. */
static void backwards(void)
{
    MPI_Win win;
    MPI_Datatype descending;
    int64_t *words = calloc(16, 8), values[4] = { 1, 2, 3, 4 }, old[4], three = 3;
    MPI_Aint here, *there = malloc(sizeof(MPI_Aint) * (size_t)size);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, words, 128);
    MPI_Get_address(words + 12, &here);
    MPI_Allgather(&here, 1, MPI_AINT, there, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Type_create_hvector(4, 1, -24, MPI_INT64_T, &descending);
    MPI_Type_commit(&descending);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    MPI_Put(values, 4, MPI_INT64_T, after, there[after], 1, descending, win);
    MPI_Win_flush(after, win);
    MPI_Accumulate(values, 4, MPI_INT64_T, after, there[after], 1, descending, MPI_SUM, win);
    MPI_Win_flush(after, win);
    MPI_Accumulate(&three, 1, MPI_INT64_T, after, there[after] - 24, 1, MPI_INT64_T, MPI_PROD, win);
    MPI_Win_flush(after, win);
    MPI_Get(old, 4, MPI_INT64_T, after, there[after], 1, descending, win);
    MPI_Win_unlock(after, win);
    for (int i = 0; i < 4; i++)
        CHECK(old[i], 2 * values[i] * (i == 1 ? 3 : 1));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int i = 0; i < 16; i++)
        CHECK(words[i], i == 12 ? 2 : i == 9 ? 12 : i == 6 ? 6 : i == 3 ? 8 : 0);
    MPI_Win_unlock(rank, win);
    MPI_Type_free(&descending);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(win, words);
    MPI_Win_free(&win);
    free(words);
    free(there);
    passed("chapter", "negative displacements");
}

/* Every assert, where it is true. */
static void asserts(void)
{
    MPI_Win win;
    MPI_Group all;
    int64_t *words, value = 30 + rank;
    make_window(64, 8, &words, &win);
    memset(words, 0, 64);
    MPI_Win_get_group(win, &all);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    MPI_Put(&value, 1, MPI_INT64_T, after, 1, 1, MPI_INT64_T, win);
    MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT, win);
    CHECK(words[1], 30 + before);
    MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED, win);
    for (int round = 0; round < 5; round++) {
        value++;
        /* After one start without a check, Open MPI 4 hangs. */
        int nocheck = epochs && round % 2 ? MPI_MODE_NOCHECK : 0;
        MPI_Win_post(all, MPI_MODE_NOSTORE | nocheck, win);
        /* All posts come before any start. */
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_start(all, nocheck, win);
        MPI_Put(&value, 1, MPI_INT64_T, after, 2, 1, MPI_INT64_T, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        CHECK(words[2], 30 + before + round + 1);
    }
    MPI_Win_post(all, MPI_MODE_NOPUT, win);
    MPI_Win_start(all, 0, win);
    MPI_Get(&value, 1, MPI_INT64_T, after, 2, 1, MPI_INT64_T, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    CHECK(value, 30 + rank + 5);
    MPI_Group_free(&all);
    MPI_Win_free(&win);
    passed("chapter", "asserts");
}

/* The class of an assert that a call does not take. MPICH 4.0 has MPI_ERR_ARG for it. */
static int is_refused(int code)
{
    int class = class_of(code);
    return class == MPI_ERR_ASSERT || (!epochs && class == MPI_ERR_ARG);
}

/* Asserts of other calls, a bit that no assert has, and all bits at once. A call that refuses its assert opens no epoch, and ends none. */
static void wrong_asserts(void)
{
    static const int asserts[] = { MPI_MODE_NOCHECK, MPI_MODE_NOSTORE, MPI_MODE_NOPUT, MPI_MODE_NOPRECEDE, MPI_MODE_NOSUCCEED, 1 << 20, -1 };
    const int of_lock = MPI_MODE_NOCHECK, of_post = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT;
    const int of_fence = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
    MPI_Win win;
    MPI_Group all;
    int64_t *words, value = 40 + rank;
    make_window(64, 8, &words, &win);
    memset(words, 0, 64);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_get_group(win, &all);
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof asserts / sizeof *asserts; i++) {
        if (asserts[i] & ~of_lock) {
            CHECK(is_refused(MPI_Win_lock(MPI_LOCK_SHARED, after, asserts[i], win)), 1);
            CHECK(is_refused(MPI_Win_lock_all(asserts[i], win)), 1);
            CHECK(is_refused(MPI_Win_start(all, asserts[i], win)), 1);
        }
        if (asserts[i] & ~of_post)
            CHECK(is_refused(MPI_Win_post(all, asserts[i], win)), 1);
        if (asserts[i] & ~of_fence)
            CHECK(is_refused(MPI_Win_fence(asserts[i], win)), 1);
    }
    CHECK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win), MPI_SUCCESS);
    CHECK(MPI_Win_unlock(after, win), MPI_SUCCESS);
    MPI_Win_fence(0, win);
    CHECK(MPI_Put(&value, 1, MPI_INT64_T, after, 3, 1, MPI_INT64_T, win), MPI_SUCCESS);
    CHECK(is_refused(MPI_Win_fence(MPI_MODE_NOSUCCEED | 1 << 20, win)), 1);
    CHECK(MPI_Put(&value, 1, MPI_INT64_T, after, 4, 1, MPI_INT64_T, win), MPI_SUCCESS);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK(words[3], 40 + before);
    CHECK(words[4], 40 + before);
    MPI_Group_free(&all);
    MPI_Win_free(&win);
    passed("chapter", "wrong asserts");
}

/* All keys of the standard at once, with values that are kept. */
static void all_hints(void)
{
    const char *pairs[][2] = { { "accumulate_ordering", "rar,war,raw,waw" }, { "accumulate_ops", "same_op_no_op" }, { "same_size", "true" },
        { "same_disp_unit", "true" }, { "mpi_accumulate_granularity", "8" }, { "mpi_assert_memory_alloc_kinds", "system,mpi" },
        { "no_locks", "false" } };
    MPI_Info info;
    MPI_Win win;
    int64_t *words, one = 1;
    MPI_Info_create(&info);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        MPI_Info_set(info, pairs[i][0], pairs[i][1]);
    MPI_Win_allocate(64, 8, info, MPI_COMM_WORLD, &words, &win);
    MPI_Info_free(&info);
    words[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int target = 0; target < size; target++)
        MPI_Accumulate(&one, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(words[0], size);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    passed("chapter", "all hints");
}

static int deleted;

static int delete_it(MPI_Win of, int key, void *value, void *extra)
{
    (void)of, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

/* Predefined attributes of each flavor, and attributes of the program. */
static void attributes(void)
{
    int64_t memory[8];
    for (int flavor = 0; flavor < 4; flavor++) {
        static const int flavors[] = { MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED, MPI_WIN_FLAVOR_DYNAMIC };
        void *base = memory, *found_base = &base, *value;
        MPI_Win win;
        MPI_Aint *bytes;
        int found, *number, key;
        switch (flavor) {
        case 0:
            MPI_Win_create(memory, 48, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
            break;
        case 1:
            MPI_Win_allocate(48, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
            break;
        case 2:
            MPI_Win_allocate_shared(48, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
            break;
        default:
            base = MPI_BOTTOM;
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        }
        MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &number, &found);
        CHECK(found && *number == flavors[flavor], 1);
        MPI_Win_get_attr(win, MPI_WIN_MODEL, &number, &found);
        CHECK(found && *number == MPI_WIN_UNIFIED, 1);
        if (flavor < 3 || managed) {
            MPI_Win_get_attr(win, MPI_WIN_BASE, &found_base, &found);
            CHECK(found && found_base == base, 1);
            MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &found);
            CHECK(found && *bytes == (flavor < 3 ? 48 : 0), 1);
            MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &number, &found);
            CHECK(found && *number == (flavor < 3 ? 4 : 1), 1);
        }
        MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_it, &key, NULL);
        deleted = 0;
        MPI_Win_set_attr(win, key, &key);
        MPI_Win_delete_attr(win, key);
        CHECK(deleted, 1);
        MPI_Win_get_attr(win, key, &value, &found);
        CHECK(found, 0);
        /* A keyval that is freed keeps its attributes. */
        MPI_Win_set_attr(win, key, &found);
        MPI_Win_free_keyval(&key);
        CHECK(key, MPI_KEYVAL_INVALID);
        MPI_Win_free(&win);
        CHECK(deleted, 2);
    }
    passed("chapter", "attributes");
}

static int handled;

static void handle(MPI_Win *win, int *code, ...)
{
    (void)win, (void)code;
    handled++;
}

/* An error handler that the program calls, and that is replaced. */
static void handlers(void)
{
    MPI_Win win;
    MPI_Errhandler handler, found;
    int64_t *words;
    make_window(64, 8, &words, &win);
    MPI_Win_create_errhandler(handle, &handler);
    MPI_Win_set_errhandler(win, handler);
    handled = 0;
    MPI_Win_call_errhandler(win, MPI_ERR_OTHER);
    CHECK(handled, 1);
    MPI_Win_get_errhandler(win, &found);
    CHECK(found == handler, 1);
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&handler);
    /* The window keeps a handler that the program has freed. */
    CHECK(class_of(MPI_Win_lock(MPI_LOCK_SHARED, size + 3, 0, win)), MPI_ERR_RANK);
    CHECK(handled, 2);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Win_lock(MPI_LOCK_SHARED, size + 3, 0, win)), MPI_ERR_RANK);
    CHECK(handled, 2);
    MPI_Win_free(&win);
    passed("chapter", "error handlers");
}

static void own_operation(void *from, void *to, int *count, MPI_Datatype *type)
{
    (void)from, (void)to, (void)count, (void)type;
}

/* Errors by class that no other program makes. */
static void classes(void)
{
    MPI_Win win, none = MPI_WIN_NULL;
    MPI_Op own;
    MPI_Group world, part, strangers;
    MPI_Comm half, copy;
    void *base;
    int64_t *words, value = 1, *there;
    MPI_Aint bytes;
    int unit, zero = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Win_allocate(-8, 8, MPI_INFO_NULL, copy, &base, &none)), MPI_ERR_SIZE);
    CHECK(class_of(MPI_Win_create(&value, 8, 0, MPI_INFO_NULL, copy, &none)), MPI_ERR_DISP);
    make_window(64, 8, &words, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Op_create(own_operation, 1, &own);
    MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win);
    CHECK(class_of(MPI_Accumulate(&value, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, own, win)), MPI_ERR_OP);
    MPI_Win_unlock(after, win);
    MPI_Op_free(&own);
    MPI_Win_free(&win);
    if (managed) {
        MPI_Win_create(&value, 8, 8, MPI_INFO_NULL, copy, &win);
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        CHECK(class_of(MPI_Win_shared_query(win, 0, &bytes, &unit, &there)), MPI_ERR_RMA_FLAVOR);
        MPI_Win_free(&win);
    }
    if (managed && size > 1) {
        /* A group with a rank that is not in the window's. */
        MPI_Comm_split(copy, rank == 0, rank, &half);
        MPI_Win_allocate(8, 8, MPI_INFO_NULL, half, &words, &win);
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        MPI_Comm_group(copy, &world);
        MPI_Group_incl(world, 1, rank == 0 ? &after : &zero, &strangers);
        CHECK(class_of(MPI_Win_start(strangers, 0, win)), MPI_ERR_GROUP);
        CHECK(class_of(MPI_Win_post(strangers, 0, win)), MPI_ERR_GROUP);
        /* The window still works. */
        MPI_Win_get_group(win, &part);
        MPI_Win_post(part, 0, win);
        MPI_Win_start(part, 0, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        MPI_Group_free(&part);
        MPI_Group_free(&world);
        MPI_Group_free(&strangers);
        MPI_Win_free(&win);
        MPI_Comm_free(&half);
    }
    MPI_Comm_free(&copy);
    passed("chapter", "error classes");
}

/* A rank with a shared lock asks for an exclusive one of another target. A policy with one lock for the window cannot give it, and says so
 * instead of waiting forever. The hosts have a lock for each target, as most policies have. */
static void conflict(const char *policy, int refuses)
{
    MPI_Info info;
    MPI_Win win;
    int64_t *words, value = 6;
    MPI_Info_create(&info);
    MPI_Info_set(info, "rmalab_lock_policy", policy);
    MPI_Win_allocate(64, 8, info, MPI_COMM_WORLD, &words, &win);
    MPI_Info_free(&info);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    words[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CHECK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_SUCCESS);
        int class = class_of(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
        CHECK(class, refuses ? MPI_ERR_RMA_CONFLICT : MPI_SUCCESS);
        if (class == MPI_SUCCESS)
            CHECK(MPI_Win_unlock(1, win), MPI_SUCCESS);
        /* The first lock is still held, and the refused one is not. */
        CHECK(MPI_Win_unlock(0, win), MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win), MPI_SUCCESS);
    CHECK(MPI_Put(&value, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win), MPI_SUCCESS);
    CHECK(MPI_Win_unlock(after, win), MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(words[0], 6);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
}

/* Memory at no address. MPICH refuses it at each rank, and Open MPI lets it be. So does the library, which makes no such window itself. */
static void no_base(void)
{
    MPI_Comm copy;
    MPI_Win win;
    int class;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    class = class_of(MPI_Win_create(NULL, 64, 8, MPI_INFO_NULL, copy, &win));
#ifdef OPEN_MPI
    CHECK(class, MPI_SUCCESS);
#else
    CHECK(class, MPI_ERR_ARG);
#endif
    if (class == MPI_SUCCESS)
        MPI_Win_free(&win);
    MPI_Comm_free(&copy);
    passed("chapter", "no base");
}

/* MPI_NO_OP reads, and looks at no origin. */
static void no_origin(void)
{
    MPI_Win win;
    int64_t *words, got[2] = { -1, -1 };
    make_window(64, 8, &words, &win);
    words[0] = 80 + rank;
    words[1] = 90 + rank;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    MPI_Get_accumulate(NULL, 0, MPI_INT64_T, got, 2, MPI_INT64_T, after, 0, 2, MPI_INT64_T, MPI_NO_OP, win);
    MPI_Win_flush(after, win);
    CHECK(got[0], 80 + after);
    CHECK(got[1], 90 + after);
    MPI_Fetch_and_op(NULL, got, MPI_INT64_T, after, 1, MPI_NO_OP, win);
    MPI_Win_flush(after, win);
    CHECK(got[0], 90 + after);
    /* No elements, of a type that has no such operation. */
    MPI_Accumulate(got, 0, MPI_BYTE, after, 0, 0, MPI_BYTE, MPI_SUM, win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    passed("chapter", "no origin");
}

/* Updates of the same words by operations that take different paths: of one element, of many, by a layout, fetched and not, by the target itself
 * and by other ranks. None is lost. */
static void mixed(void)
{
    enum { ROUNDS = 100, WORDS = 40 };
    MPI_Win win;
    MPI_Datatype strided;
    int64_t *words, one = 1, old, ones[WORDS], olds[WORDS], total = 0;
    for (int i = 0; i < WORDS; i++)
        ones[i] = 1;
    make_window(8 * WORDS, 8, &words, &win);
    memset(words, 0, 8 * WORDS);
    MPI_Type_vector(WORDS / 2, 1, 2, MPI_INT64_T, &strided);
    MPI_Type_commit(&strided);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, win);
        MPI_Accumulate(ones, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T, MPI_SUM, win);
        MPI_Accumulate(ones, WORDS / 2, MPI_INT64_T, 0, 0, 1, strided, MPI_SUM, win);
        MPI_Get_accumulate(ones, WORDS, MPI_INT64_T, olds, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_flush(0, win);
        do {
            MPI_Fetch_and_op(NULL, &old, MPI_INT64_T, 0, 0, MPI_NO_OP, win);
            MPI_Win_flush(0, win);
            int64_t next = old + 1, seen;
            MPI_Compare_and_swap(&next, &old, &seen, MPI_INT64_T, 0, 0, win);
            MPI_Win_flush(0, win);
            total = seen == old;
        } while (!total);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        for (int i = 0; i < WORDS; i++)
            CHECK(words[i], (int64_t)ROUNDS * size * (2 + (i % 2 == 0) + 3 * (i == 0)));
        MPI_Win_unlock(0, win);
    }
    MPI_Type_free(&strided);
    MPI_Win_free(&win);
    passed("chapter", "mixed updates");
}

/* Puts of all ranks to the same bytes are allowed since MPI-3; each byte is some rank's. */
static void overlapping(void)
{
    enum { LONG = 3000 };
    MPI_Win win;
    unsigned char *bytes, mine[LONG];
    memset(mine, 1 + rank, LONG);
    make_window(LONG, 1, &bytes, &win);
    memset(bytes, 0, LONG);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Put(mine, LONG, MPI_BYTE, 0, 0, LONG, MPI_BYTE, win);
    MPI_Win_unlock(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        for (int i = 0; i < LONG; i++)
            CHECK(bytes[i] >= 1 && bytes[i] <= size, 1);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_free(&win);
    passed("chapter", "overlapping puts");
}

/* A type may be freed between the call that names it and the call that completes the operation. */
static void freed_type(void)
{
    MPI_Win win;
    MPI_Datatype every_second, again;
    int64_t *words, values[4] = { 1, 2, 3, 4 };
    make_window(128, 8, &words, &win);
    memset(words, 0, 128);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    for (int round = 0; round < 3; round++) {
        MPI_Type_vector(4, 1, 2 + round, MPI_INT64_T, &every_second);
        MPI_Type_commit(&every_second);
        MPI_Put(values, 4, MPI_INT64_T, after, round, 1, every_second, win);
        MPI_Type_free(&every_second);
        /* The next type may get the handle of the previous one. */
        MPI_Type_contiguous(3, MPI_CHAR, &again);
        MPI_Type_free(&again);
        MPI_Win_flush(after, win);
    }
    MPI_Win_unlock(after, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int i = 0; i < 4; i++)
        CHECK(words[2 + 4 * i], i + 1);
    CHECK(words[0], 1);
    CHECK(words[1], 1);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    passed("chapter", "freed types");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    managed = argc > 1 && !strcmp(argv[1], "managed");
    epochs = managed || (argc > 1 && !strcmp(argv[1], "policy"));
    if (argc > 1 && !strcmp(argv[1], "fatal")) {
        /* The initial handler ends the program, and names the wrong call. */
        const char *call = argv[2];
        MPI_Win win;
        int64_t *words, value = 1;
        make_window(64, 8, &words, &win);
        if (!strcmp(call, "MPI_Put"))
            MPI_Put(&value, 1, MPI_INT64_T, size, 0, 1, MPI_INT64_T, win);
        else if (!strcmp(call, "MPI_Win_lock"))
            MPI_Win_lock(4711, 0, 0, win);
        else
            MPI_Win_unlock(size, win);
        fprintf(stderr, "an error was not fatal\n");
        return end();
    }
    if (managed) {
        memory();
        overlapping_windows();
    }
    shared_memory();
    attaching();
    backwards();
    asserts();
    wrong_asserts();
    all_hints();
    attributes();
    handlers();
    classes();
    if (size > 1) {
        conflict("mcs-rw-neutral", epochs);
        conflict("two-level", 0);
        conflict("per-target", 0);
        passed("chapter", "conflicts");
    }
    no_base();
    no_origin();
    mixed();
    overlapping();
    freed_type();
    return end();
}
