/* Makes each call of MPI's one-sided chapter, in each kind of epoch, on windows of each flavor, and checks the results. */
#include "check.h"

#define WORDS 64
/* Some hosts take milliseconds for a lock where ranks share cores. */
#define ROUNDS (size > 2 ? 20 : 200)

/* A window whose ranks have WORDS words each. */
struct window {
    MPI_Win win;
    int64_t *words;
    /* The displacement of each rank's first word, and of the others from it. */
    MPI_Aint *first;
    MPI_Aint unit;
};

static struct window w;
static int with_difficult;

static MPI_Aint at(int target, int word)
{
    return w.first[target] + word * w.unit;
}

static void fill(int64_t value)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w.win);
    for (int i = 0; i < WORDS; i++)
        w.words[i] = value;
    MPI_Win_unlock(rank, w.win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Reads a word of this rank's own memory, as the rules for loads want it. */
static int64_t own(int word)
{
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win);
    int64_t value = w.words[word];
    MPI_Win_unlock(rank, w.win);
    return value;
}

static void fences(const char *flavor)
{
    int64_t value = 100 + rank, back = -1;
    fill(0);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win);
    MPI_Put(&value, 1, MPI_INT64_T, after, at(after, 3), 1, MPI_INT64_T, w.win);
    MPI_Win_fence(0, w.win);
    CHECK(w.words[3], 100 + before);
    MPI_Get(&back, 1, MPI_INT64_T, before, at(before, 3), 1, MPI_INT64_T, w.win);
    MPI_Win_fence(0, w.win);
    CHECK(back, 100 + (before + size - 1) % size);
    int64_t one = 1;
    for (int target = 0; target < size; target++)
        MPI_Accumulate(&one, 1, MPI_INT64_T, target, at(target, 4), 1, MPI_INT64_T, MPI_SUM, w.win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
    CHECK(w.words[4], size);
    passed(flavor, "fence");
}

static void groups(const char *flavor)
{
    MPI_Group all, to, from;
    int64_t value = 7 * rank;
    fill(0);
    MPI_Win_get_group(w.win, &all);
    MPI_Group_incl(all, 1, &after, &to);
    MPI_Group_incl(all, 1, &before, &from);
    for (int round = 0; round < 20; round++) {
        value++;
        MPI_Win_post(from, 0, w.win);
        MPI_Win_start(to, 0, w.win);
        MPI_Put(&value, 1, MPI_INT64_T, after, at(after, 5), 1, MPI_INT64_T, w.win);
        MPI_Win_complete(w.win);
        if (round % 2) {
            MPI_Win_wait(w.win);
        } else {
            int over = 0;
            while (!over)
                MPI_Win_test(w.win, &over);
        }
        CHECK(w.words[5], 7 * before + round + 1);
    }
    /* All ranks with all, and a group of none. */
    int64_t one = 1;
    MPI_Win_post(all, 0, w.win);
    MPI_Win_start(all, 0, w.win);
    for (int target = 0; target < size; target++)
        MPI_Accumulate(&one, 1, MPI_INT64_T, target, at(target, 6), 1, MPI_INT64_T, MPI_SUM, w.win);
    MPI_Win_complete(w.win);
    MPI_Win_wait(w.win);
    CHECK(w.words[6], size);
    MPI_Win_post(MPI_GROUP_EMPTY, 0, w.win);
    MPI_Win_start(MPI_GROUP_EMPTY, 0, w.win);
    MPI_Win_complete(w.win);
    MPI_Win_wait(w.win);
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    passed(flavor, "post, start, complete, wait");
}

static void locks(const char *flavor)
{
    int64_t value = 1000 + rank, back = -1;
    fill(0);
    MPI_Win_lock(MPI_LOCK_SHARED, after, 0, w.win);
    MPI_Put(&value, 1, MPI_INT64_T, after, at(after, 1), 1, MPI_INT64_T, w.win);
    MPI_Win_flush(after, w.win);
    MPI_Get(&back, 1, MPI_INT64_T, after, at(after, 1), 1, MPI_INT64_T, w.win);
    MPI_Win_flush_local(after, w.win);
    CHECK(back, value);
    MPI_Win_unlock(after, w.win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(own(1), 1000 + before);

    /* Locks of two targets at a time: two ranks do not wait for each other, since both locks are shared. */
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win);
    if (after != rank) {
        MPI_Win_lock(MPI_LOCK_SHARED, after, 0, w.win);
        MPI_Win_unlock(after, w.win);
    }
    MPI_Win_unlock(rank, w.win);

    /* A counter that only the lock protects. */
    for (int round = 0; round < ROUNDS; round++) {
        int64_t counter;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win);
        MPI_Get(&counter, 1, MPI_INT64_T, 0, at(0, 9), 1, MPI_INT64_T, w.win);
        MPI_Win_flush(0, w.win);
        counter++;
        MPI_Put(&counter, 1, MPI_INT64_T, 0, at(0, 9), 1, MPI_INT64_T, w.win);
        MPI_Win_unlock(0, w.win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK(own(9), (int64_t)ROUNDS * size);

    /* Readers see both of two words that a writer changes together; the writer is rank 0, at its own memory, by stores. */
    for (int round = 1; round <= ROUNDS; round++) {
        if (rank == 0) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win);
            w.words[10] = round;
            w.words[11] = -round;
            MPI_Win_unlock(0, w.win);
        } else {
            int64_t pair[2];
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
            MPI_Get(&pair[0], 1, MPI_INT64_T, 0, at(0, 10), 1, MPI_INT64_T, w.win);
            MPI_Get(&pair[1], 1, MPI_INT64_T, 0, at(0, 11), 1, MPI_INT64_T, w.win);
            MPI_Win_unlock(0, w.win);
            CHECK(pair[0] + pair[1], 0);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win);
    MPI_Put(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, w.win);
    MPI_Win_unlock(rank, w.win);
    passed(flavor, "lock");
}

static void lock_alls(const char *flavor)
{
    int64_t one = 1, result = -1, sum = 0;
    fill(0);
    MPI_Win_lock_all(0, w.win);
    for (int target = 0; target < size; target++) {
        for (int i = 0; i < 10; i++) {
            MPI_Fetch_and_op(&one, &result, MPI_INT64_T, target, at(target, 2), MPI_SUM, w.win);
            MPI_Win_flush(target, w.win);
            sum += result;
        }
        MPI_Get_accumulate(&one, 1, MPI_INT64_T, &result, 1, MPI_INT64_T, target, at(target, 7), 1, MPI_INT64_T, MPI_SUM, w.win);
        MPI_Win_flush_local(target, w.win);
        CHECK(result >= 0 && result < size, 1);
    }
    MPI_Win_flush_all(w.win);
    MPI_Win_flush_local_all(w.win);
    MPI_Win_sync(w.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(w.win);
    CHECK(w.words[2], 10 * size);
    CHECK(w.words[7], size);
    int64_t expected = 0, desired = rank + 1;
    MPI_Compare_and_swap(&desired, &expected, &result, MPI_INT64_T, 0, at(0, 8), w.win);
    MPI_Win_flush(0, w.win);
    int won = result == 0, winners;
    MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(winners, 1);
    MPI_Win_unlock_all(w.win);
    /* Each value from 0 to the last was fetched once. */
    int64_t total;
    MPI_Allreduce(&sum, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK(total, (int64_t)size * (10 * size) * (10 * size - 1) / 2);
    passed(flavor, "lock_all");
}

static void requests(const char *flavor)
{
    int64_t values[8], back[8], one = 1, old = -1, before_it = -1;
    MPI_Request made[8];
    fill(0);
    for (int i = 0; i < 8; i++)
        values[i] = 10 * rank + i;
    MPI_Win_lock_all(0, w.win);
    for (int i = 0; i < 8; i++)
        MPI_Rput(&values[i], 1, MPI_INT64_T, after, at(after, 16 + i), 1, MPI_INT64_T, w.win, &made[i]);
    MPI_Waitall(8, made, MPI_STATUSES_IGNORE);
    MPI_Win_flush_all(w.win);
    for (int i = 0; i < 8; i++)
        MPI_Rget(&back[i], 1, MPI_INT64_T, after, at(after, 16 + i), 1, MPI_INT64_T, w.win, &made[i]);
    MPI_Waitall(8, made, MPI_STATUSES_IGNORE);
    CHECK(memcmp(values, back, sizeof values), 0);
    MPI_Raccumulate(&one, 1, MPI_INT64_T, 0, at(0, 30), 1, MPI_INT64_T, MPI_SUM, w.win, &made[0]);
    MPI_Rget_accumulate(&one, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, 0, at(0, 31), 1, MPI_INT64_T, MPI_SUM, w.win, &made[1]);
    MPI_Wait(&made[0], MPI_STATUS_IGNORE);
    MPI_Wait(&made[1], MPI_STATUS_IGNORE);
    CHECK(old >= 0 && old < size, 1);
    /* A request that outlives its epoch, beside one of two-sided communication. */
    int token = rank, got = -1;
    MPI_Irecv(&got, 1, MPI_INT, before, 5, MPI_COMM_WORLD, &made[0]);
    MPI_Rget(&before_it, 1, MPI_INT64_T, rank, at(rank, 40), 1, MPI_INT64_T, w.win, &made[1]);
    MPI_Win_unlock_all(w.win);
    MPI_Send(&token, 1, MPI_INT, after, 5, MPI_COMM_WORLD);
    MPI_Waitall(2, made, MPI_STATUSES_IGNORE);
    CHECK(got, before);
    CHECK(before_it, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CHECK(own(30), size);
        CHECK(own(31), size);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win);
    MPI_Rget(&before_it, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, w.win, &made[0]);
    MPI_Wait(&made[0], MPI_STATUS_IGNORE);
    MPI_Win_unlock(rank, w.win);
    passed(flavor, "requests");
}

static void datatypes(const char *flavor)
{
    MPI_Datatype every_third;
    int64_t values[4] = { 1, 2, 3, 4 }, back[4] = { 0 };
    fill(-1);
    MPI_Type_vector(4, 1, 3, MPI_INT64_T, &every_third);
    MPI_Type_commit(&every_third);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, w.win);
    MPI_Put(values, 4, MPI_INT64_T, after, at(after, 20), 1, every_third, w.win);
    MPI_Win_flush(after, w.win);
    MPI_Get(back, 4, MPI_INT64_T, after, at(after, 20), 1, every_third, w.win);
    MPI_Win_unlock(after, w.win);
    CHECK(memcmp(values, back, sizeof values), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 12; i++)
        CHECK(own(20 + i), i % 3 ? -1 : 1 + i / 3);
    MPI_Type_free(&every_third);
    /* The largest value and its place. */
    struct { int value, place; } mine = { 3 * rank, rank }, most = { -1, -1 };
    fill(0);
    MPI_Win_fence(0, w.win);
    MPI_Accumulate(&mine, 1, MPI_2INT, 0, at(0, 50), 1, MPI_2INT, MPI_MAXLOC, w.win);
    MPI_Win_fence(0, w.win);
    MPI_Get(&most, 1, MPI_2INT, 0, at(0, 50), 1, MPI_2INT, w.win);
    MPI_Win_fence(0, w.win);
    CHECK(most.place, size - 1);
    passed(flavor, "datatypes");
}

/* Calls that some hosts lack: Open MPI 4 refuses a lock and a flush of MPI_PROC_NULL, and MPICH 4.0 hangs in a lock after one with NOCHECK. */
static void difficult(const char *flavor)
{
    int64_t value = 1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, MPI_PROC_NULL, 0, w.win);
    MPI_Put(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, w.win);
    MPI_Win_flush(MPI_PROC_NULL, w.win);
    MPI_Win_flush_local(MPI_PROC_NULL, w.win);
    MPI_Win_unlock(MPI_PROC_NULL, w.win);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win);
    MPI_Win_unlock_all(w.win);
    MPI_Win_lock(MPI_LOCK_SHARED, after, MPI_MODE_NOCHECK, w.win);
    MPI_Win_unlock(after, w.win);
    fill(5);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, w.win);
    MPI_Win_unlock(after, w.win);
    passed(flavor, "difficult calls");
}

static void properties(const char *flavor, int wanted_flavor)
{
    int found, *made, *model;
    MPI_Aint *bytes;
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    MPI_Info info;
    MPI_Group group;
    MPI_Win_get_attr(w.win, MPI_WIN_CREATE_FLAVOR, &made, &found);
    CHECK(found, 1);
    CHECK(*made, wanted_flavor);
    MPI_Win_get_attr(w.win, MPI_WIN_MODEL, &model, &found);
    CHECK(*model, MPI_WIN_UNIFIED);
    MPI_Win_get_attr(w.win, MPI_WIN_SIZE, &bytes, &found);
    if (wanted_flavor != MPI_WIN_FLAVOR_DYNAMIC)
        CHECK(*bytes, 8 * WORDS);
    MPI_Win_set_name(w.win, "halo");
    MPI_Win_get_name(w.win, name, &len);
    CHECK(strcmp(name, "halo"), 0);
    MPI_Win_get_info(w.win, &info);
    MPI_Info_free(&info);
    MPI_Win_get_group(w.win, &group);
    MPI_Group_size(group, &found);
    CHECK(found, size);
    MPI_Group_free(&group);
    passed(flavor, "properties");
}

static void each_case(const char *flavor, int made)
{
    properties(flavor, made);
    fences(flavor);
    groups(flavor);
    locks(flavor);
    lock_alls(flavor);
    requests(flavor);
    datatypes(flavor);
    if (with_difficult)
        difficult(flavor);
}

/* Windows with different sizes and displacement units, some of them empty. */
static void uneven(void)
{
    int64_t *words, value = rank;
    MPI_Win win;
    int unit = rank % 2 ? 8 : 1, unit_there = after % 2 ? 8 : 1;
    MPI_Win_allocate(rank % 2 ? 0 : 64 + 8 * rank, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    MPI_Win_fence(0, win);
    if (after % 2 == 0)
        MPI_Put(&value, 1, MPI_INT64_T, after, 8 / unit_there, 1, MPI_INT64_T, win);
    MPI_Win_fence(0, win);
    if (rank % 2 == 0)
        CHECK(words[1], before);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    MPI_Win_unlock(after, win);
    MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL, 1);
    passed("allocate", "sizes and units differ");
}

/* Windows over other communicators, which are freed while their windows live. */
static void communicators(void)
{
    MPI_Comm half, copy;
    MPI_Win of_half, of_copy, of_self;
    int64_t *a, *b, *c, one = 1;
    int half_size, me;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_size(half, &half_size);
    MPI_Comm_rank(half, &me);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, half, &a, &of_half);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, copy, &b, &of_copy);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_SELF, &c, &of_self);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    a[0] = b[0] = c[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < 20; round++) {
        for (int target = 0; target < half_size; target++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, of_half);
            MPI_Accumulate(&one, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, MPI_SUM, of_half);
            MPI_Win_unlock(target, of_half);
        }
        MPI_Win_lock(MPI_LOCK_SHARED, size - 1, 0, of_copy);
        MPI_Accumulate(&one, 1, MPI_INT64_T, size - 1, 0, 1, MPI_INT64_T, MPI_SUM, of_copy);
        /* Epochs on two windows at a time. */
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, of_self);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, of_self);
        MPI_Win_unlock(0, of_self);
        MPI_Win_unlock(size - 1, of_copy);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, me, 0, of_half);
    CHECK(a[0], 20 * half_size);
    MPI_Win_unlock(me, of_half);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, of_copy);
    CHECK(b[0], rank == size - 1 ? 20 * size : 0);
    MPI_Win_unlock(rank, of_copy);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, of_self);
    CHECK(c[0], 20);
    MPI_Win_unlock(0, of_self);
    MPI_Win_free(&of_self);
    MPI_Win_free(&of_half);
    MPI_Win_free(&of_copy);
    passed("allocate", "communicators");
}

static void many(void)
{
    enum { MANY = 24 };
    MPI_Win wins[MANY];
    int64_t *words[MANY], one = 1;
    for (int i = 0; i < MANY; i++) {
        MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words[i], &wins[i]);
        words[i][0] = 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, wins[i]);
        MPI_Accumulate(&one, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, MPI_SUM, wins[i]);
        MPI_Win_unlock(after, wins[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, wins[i]);
        CHECK(words[i][0], 1);
        MPI_Win_unlock(rank, wins[i]);
    }
    /* Freed and made again, in another order. */
    for (int i = 0; i < MANY; i += 2)
        MPI_Win_free(&wins[i]);
    for (int i = 0; i < MANY; i += 2)
        MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words[i], &wins[i]);
    for (int i = MANY - 1; i >= 0; i--)
        MPI_Win_free(&wins[i]);
    passed("allocate", "many windows");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Aint *first = calloc(size, sizeof *first);
    w.first = first;
    w.unit = 1;
    /* The flavors that the host has, and whether it can do the difficult calls, as the caller knows. */
    const char *flavors = argc > 1 ? argv[1] : "allocate,create,shared,dynamic";
    with_difficult = strstr(flavors, "difficult") != NULL;

    if (strstr(flavors, "allocate")) {
        MPI_Win_allocate(8 * WORDS, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &w.words, &w.win);
        each_case("allocate", MPI_WIN_FLAVOR_ALLOCATE);
        MPI_Win_free(&w.win);
        uneven();
        communicators();
        many();
    }
    if (strstr(flavors, "create")) {
        int64_t *memory = aligned_alloc(64, 8 * WORDS);
        w.words = memory;
        MPI_Win_create(memory, 8 * WORDS, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        each_case("create", MPI_WIN_FLAVOR_CREATE);
        MPI_Win_free(&w.win);
        free(memory);
    }
    if (strstr(flavors, "shared")) {
        MPI_Win_allocate_shared(8 * WORDS, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &w.words, &w.win);
        each_case("shared", MPI_WIN_FLAVOR_SHARED);
        MPI_Aint bytes;
        int unit;
        int64_t *there;
        fill(rank);
        MPI_Win_shared_query(w.win, after, &bytes, &unit, &there);
        MPI_Win_lock(MPI_LOCK_SHARED, after, 0, w.win);
        CHECK(there[5], after);
        MPI_Win_unlock(after, w.win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_free(&w.win);
        passed("shared", "shared_query");
    }
    if (strstr(flavors, "dynamic")) {
        int64_t *memory = aligned_alloc(64, 8 * WORDS);
        MPI_Aint here;
        w.words = memory;
        w.unit = 8;
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        MPI_Win_attach(w.win, memory, 8 * WORDS);
        MPI_Get_address(memory, &here);
        MPI_Allgather(&here, 1, MPI_AINT, first, 1, MPI_AINT, MPI_COMM_WORLD);
        each_case("dynamic", MPI_WIN_FLAVOR_DYNAMIC);
        MPI_Win_detach(w.win, memory);
        MPI_Win_free(&w.win);
        free(memory);
    }
    free(first);
    return end();
}
