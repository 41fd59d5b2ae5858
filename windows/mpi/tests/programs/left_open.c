/* Windows that the program never frees: over all ranks, over a part of them, and over this rank alone. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Win win;
    MPI_Comm half;
    int64_t *words, one = 1;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, half, &words, &win);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_SELF, &words, &win);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    words[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win);
    MPI_Accumulate(&one, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_unlock(after, win);
    MPI_Barrier(MPI_COMM_WORLD);
    passed("left open", "windows");
    return end();
}
