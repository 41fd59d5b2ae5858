/* A rank ends a call on a window, and then waits in the MPI for a message of a rank that the call has to let go on. */
#include "check.h"

static void tell(int other) { MPI_Send(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD); }
static void hear(int other) { MPI_Recv(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

/* The others wait in their call by then. */
static void be_late(void) { usleep(30000); }

static void fences(MPI_Win win)
{
    for (int late = 0; late < size; late++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == late)
            be_late();
        MPI_Win_fence(0, win);
        if (rank != late)
            tell(late);
        for (int other = 0; rank == late && other < size; other++)
            if (other != late)
                hear(other);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    passed("blocked", "after a fence");
}

static void active_targets(MPI_Win win)
{
    MPI_Group all, group;
    int64_t value = 7;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Group_incl(all, 1, &after, &group);
        MPI_Win_start(group, 0, win);
        MPI_Put(&value, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win);
        MPI_Win_complete(win);
        tell(1);
        MPI_Group_free(&group);
    } else if (rank == 1) {
        MPI_Group_incl(all, 1, &before, &group);
        be_late();
        MPI_Win_post(group, 0, win);
        hear(0);
        MPI_Win_wait(win);
        MPI_Group_free(&group);
    }
    passed("blocked", "after a post");
    if (rank == 0) {
        MPI_Group_incl(all, 1, &after, &group);
        be_late();
        MPI_Win_start(group, 0, win);
        MPI_Put(&value, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win);
        MPI_Win_complete(win);
        hear(1);
        MPI_Group_free(&group);
    } else if (rank == 1) {
        MPI_Group_incl(all, 1, &before, &group);
        MPI_Win_post(group, 0, win);
        MPI_Win_wait(win);
        tell(0);
        MPI_Group_free(&group);
    }
    MPI_Group_free(&all);
    passed("blocked", "after a complete");
}

static void lock(int how, MPI_Win win)
{
    if (how == 2)
        MPI_Win_lock_all(0, win);
    else
        MPI_Win_lock(how ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, size - 1, 0, win);
}

static void unlock(int how, MPI_Win win)
{
    if (how == 2)
        MPI_Win_unlock_all(win);
    else
        MPI_Win_unlock(size - 1, win);
}

static void locks(MPI_Win win)
{
    for (int first = 0; first < 3; first++)
        for (int second = 0; second < 3; second++) {
            if (rank == 0)
                lock(first, win);
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) {
                be_late();
                unlock(first, win);
                hear(1);
            } else if (rank == 1) {
                lock(second, win);
                unlock(second, win);
                tell(0);
            }
        }
    passed("blocked", "after an unlock");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Win win;
    int64_t *words;
    make_window(64, 8, &words, &win);
    if (size > 1) {
        fences(win);
        active_targets(win);
        locks(win);
    }
    MPI_Win_free(&win);
    return end();
}
