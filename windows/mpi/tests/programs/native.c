/*
 * Operations whose paths differ in windows that are the library's: types with and without gaps, pairs, types that only the host has, all
 * operations, requests that are complete at once, many locks at a time. Results are printed, so that they can be compared with the host's.
 */
#include "check.h"

static MPI_Win win;
static unsigned char *memory;
#define BYTES 4096

static unsigned sum_of(const void *data, int bytes)
{
    unsigned sum = 2166136261u;
    for (int i = 0; i < bytes; i++)
        sum = (sum ^ ((const unsigned char *)data)[i]) * 16777619u;
    return sum;
}

static void report(const char *what, unsigned sum)
{
    unsigned all = 0;
    MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %08x\n", what, all);
}

static void clear(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    for (int i = 0; i < BYTES; i++)
        memory[i] = (unsigned char)(i % 2);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

struct kind {
    const char *name;
    MPI_Datatype type;
    int size, floats;
    const char *groups;
};

/* Small values, so that no operation overflows or rounds. */
static void value_of(const struct kind *k, void *at, int value)
{
    memset(at, 0, 64);
    if (k->floats == 4)
        *(float *)at = (float)value;
    else if (k->floats == 8)
        *(double *)at = value;
    else if (k->floats == 16)
        *(long double *)at = value;
    else if (k->floats == -1) { /* a float and an int */
        ((float *)at)[0] = (float)value;
        ((int *)at)[1] = value;
    } else if (k->floats == -2) { /* a double and an int */
        ((double *)at)[0] = value;
        ((int *)at)[2] = value;
    } else if (k->floats == -3) { /* two ints */
        ((int *)at)[0] = value;
        ((int *)at)[1] = value;
    } else if (k->floats == -4) /* a truth value */
        *(unsigned char *)at = value % 2;
    else
        memcpy(at, &value, k->size < 4 ? (size_t)k->size : 4);
}

static void operations(void)
{
    struct { const char *name; MPI_Op op; char group; } ops[] = { { "sum", MPI_SUM, 'a' }, { "prod", MPI_PROD, 'a' },
        { "min", MPI_MIN, 'o' }, { "max", MPI_MAX, 'o' }, { "land", MPI_LAND, 'l' }, { "lor", MPI_LOR, 'l' },
        { "lxor", MPI_LXOR, 'l' }, { "band", MPI_BAND, 'b' }, { "bor", MPI_BOR, 'b' }, { "bxor", MPI_BXOR, 'b' },
        { "replace", MPI_REPLACE, 'r' }, { "no_op", MPI_NO_OP, 'r' }, { "minloc", MPI_MINLOC, 'p' },
        { "maxloc", MPI_MAXLOC, 'p' } };
    struct kind kinds[] = { { "int8", MPI_INT8_T, 1, 0, "aolbr" }, { "int16", MPI_INT16_T, 2, 0, "aolbr" },
        { "int", MPI_INT, 4, 0, "aolbr" }, { "int64", MPI_INT64_T, 8, 0, "aolbr" }, { "unsigned", MPI_UNSIGNED, 4, 0, "aolbr" },
        { "uint64", MPI_UINT64_T, 8, 0, "aolbr" }, { "long", MPI_LONG, 8, 0, "aolbr" }, { "float", MPI_FLOAT, 4, 4, "aor" },
        { "double", MPI_DOUBLE, 8, 8, "aor" }, { "long double", MPI_LONG_DOUBLE, 16, 16, "aor" }, { "byte", MPI_BYTE, 1, 0, "br" },
        { "C bool", MPI_C_BOOL, 1, -4, "lr" }, { "float complex", MPI_C_FLOAT_COMPLEX, 8, 4, "ar" },
        { "double complex", MPI_C_DOUBLE_COMPLEX, 16, 8, "ar" }, { "float int", MPI_FLOAT_INT, 8, -1, "pr" },
        { "double int", MPI_DOUBLE_INT, 16, -2, "pr" }, { "2int", MPI_2INT, 8, -3, "pr" } };
    int n_ops = sizeof ops / sizeof *ops, n_kinds = sizeof kinds / sizeof *kinds;
    for (int i = 0; i < n_kinds; i++) {
        struct kind *k = &kinds[i];
        unsigned all = 0;
        for (int j = 0; j < n_ops; j++) {
            unsigned char mine[64], old[64] = { 0 };
            if (!strchr(k->groups, ops[j].group))
                continue;
            clear();
            /* All ranks in turn, so that fetched values are the same each time. */
            for (int turn = 0; turn < size; turn++) {
                MPI_Barrier(MPI_COMM_WORLD);
                if (turn != rank)
                    continue;
                value_of(k, mine, 2 + rank);
                MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
                if (ops[j].op != MPI_NO_OP)
                    MPI_Accumulate(mine, 1, k->type, 0, 0, 1, k->type, ops[j].op, win);
                MPI_Win_flush(0, win);
                MPI_Get_accumulate(mine, 1, k->type, old, 1, k->type, 0, k->size, 1, k->type, ops[j].op, win);
                MPI_Win_flush(0, win);
                all += sum_of(old, k->floats == 16 ? 10 : k->size);
                memset(old, 0, sizeof old);
                MPI_Fetch_and_op(mine, old, k->type, 0, 2 * k->size, ops[j].op, win);
                MPI_Win_unlock(0, win);
                all += sum_of(old, k->floats == 16 ? 10 : k->size);
            }
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) {
                MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
                for (int at = 0; at < 3; at++)
                    all += sum_of(memory + at * k->size, k->floats == 16 ? 10 : k->size);
                MPI_Win_unlock(0, win);
            }
        }
        report(k->name, all);
    }
}

static void layouts(void)
{
    MPI_Datatype strided, blocks, pair, back_to_front;
    int lengths[2] = { 2, 1 }, places[2] = { 5, 1 };
    int64_t values[6] = { 1, 2, 3, 4, 5, 6 }, got[6] = { 0 }, spread[24];
    MPI_Type_vector(3, 2, 4, MPI_INT64_T, &strided);
    MPI_Type_indexed(2, lengths, places, MPI_INT64_T, &blocks);
    MPI_Type_contiguous(6, MPI_INT64_T, &pair);
    MPI_Type_create_hvector(6, 1, -8, MPI_INT64_T, &back_to_front);
    MPI_Type_commit(&strided);
    MPI_Type_commit(&blocks);
    MPI_Type_commit(&pair);
    MPI_Type_commit(&back_to_front);
    for (int i = 0; i < 24; i++)
        spread[i] = 100 + i;
    clear();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    MPI_Put(spread, 1, strided, after, 64, 1, pair, win);
    MPI_Put(values, 3, MPI_INT64_T, after, 256, 1, blocks, win);
    MPI_Put(values, 6, MPI_INT64_T, after, 512, 1, back_to_front, win);
    MPI_Win_flush(after, win);
    MPI_Get(got, 1, pair, after, 64, 6, MPI_INT64_T, win);
    MPI_Win_unlock(after, win);
    for (int i = 0; i < 6; i++)
        CHECK(got[i], 100 + i / 2 * 4 + i % 2);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    report("put with layouts", sum_of(memory, 1024));
    MPI_Win_unlock(rank, win);
    /* Accumulates by a layout and by elements meet in the same words: none is lost. */
    int64_t ones[6] = { 1, 1, 1, 1, 1, 1 }, one = 1, old;
    clear();
    memset(values, 0, sizeof values);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    memset(memory, 0, BYTES);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < 100; round++) {
        MPI_Accumulate(ones, 6, MPI_INT64_T, 0, 0, 1, strided, MPI_SUM, win);
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, win);
        MPI_Accumulate(ones, 6, MPI_INT64_T, 0, 0, 6, MPI_INT64_T, MPI_SUM, win);
        MPI_Get_accumulate(ones, 1, pair, got, 1, pair, 0, 0, 1, pair, MPI_SUM, win);
        MPI_Win_flush(0, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        int64_t *words = (int64_t *)memory;
        int expected[10] = { 4, 3, 2, 2, 3, 3, 0, 0, 1, 1 };
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        for (int i = 0; i < 10; i++)
            CHECK(words[i], (int64_t)expected[i] * 100 * size);
        MPI_Win_unlock(0, win);
    }
    MPI_Type_free(&strided);
    MPI_Type_free(&blocks);
    MPI_Type_free(&pair);
    MPI_Type_free(&back_to_front);
    passed("native", "layouts");
}

static void requests(void)
{
    MPI_Request made[3] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    int64_t value = 7 + rank, got = -1, old = -1;
    int index, flag = 0;
    clear();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    MPI_Rput(&value, 1, MPI_INT64_T, after, 8, 1, MPI_INT64_T, win, &made[1]);
    /* A complete request is found by its place. */
    MPI_Waitany(3, made, &index, MPI_STATUS_IGNORE);
    CHECK(index, 1);
    CHECK(made[1] == MPI_REQUEST_NULL, 1);
    MPI_Win_flush(after, win);
    MPI_Rget(&got, 1, MPI_INT64_T, after, 8, 1, MPI_INT64_T, win, &made[0]);
    while (!flag)
        MPI_Test(&made[0], &flag, MPI_STATUS_IGNORE);
    CHECK(got, 7 + rank);
    MPI_Rget_accumulate(&value, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, after, 8, 1, MPI_INT64_T, MPI_SUM, win, &made[2]);
    MPI_Wait(&made[2], MPI_STATUS_IGNORE);
    CHECK(old, 7 + rank);
    MPI_Win_unlock(after, win);
    MPI_Barrier(MPI_COMM_WORLD);
    passed("native", "requests");
}

static int deleted;

static int delete_it(MPI_Win of, int key, void *value, void *extra)
{
    (void)of, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

/* A window's name, attributes and error handler end with it, even if its handle is used again. */
static void handles(void)
{
    int key, found, len;
    char name[MPI_MAX_OBJECT_NAME];
    void *value;
    int64_t *words;
    MPI_Win a;
    MPI_Errhandler handler;
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_it, &key, NULL);
    for (int round = 0; round < 3; round++) {
        MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &a);
        MPI_Win_get_attr(a, key, &value, &found);
        CHECK(found, 0);
        MPI_Win_get_name(a, name, &len);
        CHECK(strcmp(name, "mine") == 0, 0);
        MPI_Win_get_errhandler(a, &handler);
        CHECK(handler == MPI_ERRORS_ARE_FATAL, 1);
        MPI_Errhandler_free(&handler);
        MPI_Win_set_attr(a, key, &key);
        MPI_Win_set_name(a, "mine");
        MPI_Win_set_errhandler(a, MPI_ERRORS_RETURN);
        MPI_Win_get_attr(a, key, &value, &found);
        CHECK(found && value == &key, 1);
        MPI_Win_free(&a);
        CHECK(deleted, round + 1);
    }
    MPI_Win_free_keyval(&key);
    passed("native", "handles");
}

/* A window that is larger than most of what a program has; its pages are not touched, except for the last one. */
static void large(void)
{
    int64_t *words, value = 5 + rank, got = -1;
    MPI_Aint bytes = (MPI_Aint)3 << 30;
    MPI_Win a;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &a);
    MPI_Win_fence(0, a);
    MPI_Put(&value, 1, MPI_INT64_T, after, bytes - 8, 1, MPI_INT64_T, a);
    MPI_Win_fence(0, a);
    MPI_Get(&got, 1, MPI_INT64_T, after, bytes - 8, 1, MPI_INT64_T, a);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, a);
    CHECK(got, value);
    CHECK(words[bytes / 8 - 1], 5 + before);
    MPI_Win_free(&a);
    passed("native", "large");
}

/* A rank waits by looking at a window for a word that another rank writes after a large message has come. */
static void progress(void)
{
    enum { LARGE = 1 << 22 };
    char *data = calloc(1, LARGE);
    int64_t flag = 0, one = 1;
    if (size > 1) {
        clear();
        MPI_Request sent;
        MPI_Win_lock_all(0, win);
        if (rank == 0) {
            MPI_Isend(data, LARGE, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &sent);
            do {
                MPI_Get(&flag, 1, MPI_INT64_T, 0, 64, 1, MPI_INT64_T, win);
                MPI_Win_flush(0, win);
            } while (flag != 1);
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(data, LARGE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 64, 1, MPI_INT64_T, MPI_REPLACE, win);
        }
        MPI_Win_unlock_all(win);
    }
    free(data);
    passed("native", "progress");
}

static void part_sizes(void)
{
    char *mine, *there;
    MPI_Win a;
    MPI_Aint bytes;
    int unit, *flavor, found;
    MPI_Aint *size_found;
    MPI_Win_allocate_shared(16 * (rank + 1), rank + 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &a);
    MPI_Win_shared_query(a, after, &bytes, &unit, &there);
    CHECK(bytes, 16 * (after + 1));
    CHECK(unit, after + 1);
    MPI_Win_get_attr(a, MPI_WIN_SIZE, &size_found, &found);
    CHECK(*size_found, 16 * (rank + 1));
    MPI_Win_get_attr(a, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
    CHECK(*flavor, MPI_WIN_FLAVOR_SHARED);
    MPI_Win_lock_all(0, a);
    mine[0] = (char)(rank + 1);
    MPI_Win_sync(a);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(a);
    CHECK(there[0], after + 1);
    char got = 0;
    MPI_Get(&got, 1, MPI_CHAR, after, 0, 1, MPI_CHAR, a);
    MPI_Win_unlock_all(a);
    CHECK(got, after + 1);
    MPI_Win_shared_query(a, MPI_PROC_NULL, &bytes, &unit, &there);
    CHECK(bytes, 16);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&a);
    passed("native", "shared parts");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    make_window(BYTES, 1, &memory, &win);
    operations();
    layouts();
    requests();
    progress();
    MPI_Win_free(&win);
    handles();
    part_sizes();
    large();
    return end();
}
