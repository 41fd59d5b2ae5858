/*
 * Rank 0 makes no call, and looks at its memory until all other ranks have locked it, put, updated and unlocked it: they need no help from it.
 * Without the library, and in its other modes, this may never end.
 */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Win win;
    int64_t *words, one = 1, value = 7, got;
    make_window(8 * (2 + size), 8, &words, &win);
    memset(words, 0, 8 * (size_t)(2 + size));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        volatile int64_t *look = words;
        while (look[0] < size - 1)
            ;
        for (int i = 1; i < size; i++)
            CHECK(look[1 + i], 20);
    } else {
        for (int i = 0; i < 20; i++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Get(&got, 1, MPI_INT64_T, 0, 1 + rank, 1, MPI_INT64_T, win);
            MPI_Win_flush(0, win);
            got++;
            MPI_Put(&got, 1, MPI_INT64_T, 0, 1 + rank, 1, MPI_INT64_T, win);
            MPI_Put(&value, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, win);
            MPI_Win_unlock(0, win);
        }
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    passed("busy", "a rank without calls");
    return end();
}
