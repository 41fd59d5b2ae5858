/*
 * Many origins lock one target: mostly in shared mode, now and then in exclusive mode, as in MPICH's issue 3831.
 *
 *     shared_exclusive MILLISECONDS SHARED_PER_EXCLUSIVE
 *
 * Each rank locks rank 0, gets a counter and unlocks, and after SHARED_PER_EXCLUSIVE such locks adds one to the counter under an
 * exclusive lock. Rank 0 prints the nanoseconds of a lock, the mean of all ranks, after it has checked the counter.
 */
#include "check.h"
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    double budget = (argc > 1 ? atof(argv[1]) : 100) * 1e6;
    long per_exclusive = argc > 2 ? atol(argv[2]) : 50;
    int64_t *counter, value = 0;
    MPI_Win win;
    MPI_Win_allocate(rank == 0 ? 8 : 0, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &win);
    if (rank == 0)
        *counter = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    long numbers[2] = { 0, 0 };
    double start = now(), last;
    do {
        for (long i = 0; i < per_exclusive; i++) {
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
            MPI_Get(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
            MPI_Win_unlock(0, win);
        }
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        value++;
        MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
        MPI_Win_unlock(0, win);
        numbers[0]++;
        numbers[1] += per_exclusive + 1;
        last = now();
    } while (last - start < budget);
    double time = last - start;
    MPI_Allreduce(MPI_IN_PLACE, numbers, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
    MPI_Win_unlock(0, win);
    CHECK(value, numbers[0]);
    MPI_Win_free(&win);
    if (rank == 0)
        printf("%.1f\n", time / numbers[1]);
    all_failures = failures;
    return end();
}
