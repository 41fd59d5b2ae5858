/* Makes each call that a trace holds, on two ranks, for tests/recorded.rs, which expects the calls in the same order. */
#include "check.h"

static int other;
static int64_t *memory, two[2] = { 1, 2 }, three[3], found[2];

static void locks(MPI_Win win)
{
    MPI_Datatype column, late;
    MPI_Aint second = 16;
    MPI_Type_vector(3, 1, 2, MPI_INT64_T, &column);
    MPI_Type_create_hindexed_block(1, 1, &second, MPI_INT64_T, &late);
    MPI_Type_commit(&column);
    MPI_Type_commit(&late);
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
    MPI_Put(two, 16, MPI_BYTE, other, 1, 16, MPI_BYTE, win);
    MPI_Put(three, 3, MPI_INT64_T, other, 4, 1, column, win);
    MPI_Put(two, 1, MPI_INT64_T, other, 10, 1, late, win);
    MPI_Get(found, 2, MPI_DOUBLE, other, 14, 2, MPI_DOUBLE, win);
    MPI_Win_flush(other, win);
    MPI_Win_flush_local(other, win);
    MPI_Win_unlock(other, win);

    double real = 1, was_real;
    int32_t one = 1, was;
    int64_t expected = 0, was_wide;
    long double longest = 1;
    MPI_Request request;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win);
    MPI_Accumulate(two, 2, MPI_INT64_T, other, 16, 2, MPI_INT64_T, MPI_SUM, win);
    MPI_Get_accumulate(&real, 1, MPI_DOUBLE, &was_real, 1, MPI_DOUBLE, other, 18, 1, MPI_DOUBLE, MPI_MAX, win);
    MPI_Fetch_and_op(&one, &was, MPI_INT32_T, other, 19, MPI_BOR, win);
    MPI_Compare_and_swap(&two[0], &expected, &was_wide, MPI_INT64_T, other, 20, win);
    MPI_Accumulate(&longest, 1, MPI_LONG_DOUBLE, other, 22, 1, MPI_LONG_DOUBLE, MPI_SUM, win);
    MPI_Rput(two, 1, MPI_INT64_T, other, 24, 1, MPI_INT64_T, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_unlock(other, win);

    MPI_Win_lock_all(0, win);
    MPI_Put(two, 1, MPI_INT64_T, rank, 25, 1, MPI_INT64_T, win);
    /* Not recorded. */
    MPI_Put(two, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win);
    MPI_Win_flush_all(win);
    MPI_Win_unlock_all(win);
    MPI_Type_free(&column);
    MPI_Type_free(&late);
}

static void meetings(MPI_Win win)
{
    MPI_Group all, others;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &other, &others);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    MPI_Put(two, 1, MPI_INT64_T, other, 26, 1, MPI_INT64_T, win);
    MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOSUCCEED, win);
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Win_post(others, MPI_MODE_NOSTORE, win);
    MPI_Win_start(others, 0, win);
    MPI_Put(two, 1, MPI_INT64_T, other, 27, 1, MPI_INT64_T, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);

    int over = 0;
    MPI_Win_post(others, 0, win);
    MPI_Win_start(others, 0, win);
    MPI_Win_complete(win);
    while (!over)
        MPI_Win_test(win, &over);
    MPI_Group_free(&all);
    MPI_Group_free(&others);
}

static void dynamic(void)
{
    static int64_t region[4];
    MPI_Aint mine, theirs;
    MPI_Comm comm;
    MPI_Win win;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win);
    MPI_Win_attach(win, region, sizeof region);
    MPI_Get_address(region, &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, other, 0, &theirs, 1, MPI_AINT, other, 0, comm, MPI_STATUS_IGNORE);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win);
    MPI_Put(two, 1, MPI_INT64_T, other, MPI_Aint_add(theirs, 8), 1, MPI_INT64_T, win);
    MPI_Win_unlock(other, win);
    MPI_Barrier(comm);
    CHECK(region[1], 1);
    MPI_Win_detach(win, region);
    MPI_Win_free(&win);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    begin(&argc, &argv);
    other = after;
    MPI_Win_allocate(256, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Barrier(MPI_COMM_SELF);
    MPI_Barrier(MPI_COMM_WORLD);
    locks(win);
    MPI_Barrier(MPI_COMM_WORLD);
    meetings(win);
    MPI_Win_free(&win);
    dynamic();
    passed("all", "recorded");
    return end();
}
