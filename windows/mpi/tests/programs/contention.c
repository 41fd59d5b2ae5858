/* Ranks contend for locks: counters that only exclusive locks protect, and pairs of words that readers must not see torn. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    MPI_Win win;
    int64_t *words, seen[2], value, total, sum, mine = 0;
    unsigned state = 12345u + (unsigned)rank;
    make_window(64, 8, &words, &win);
    memset(words, 0, 64);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++) {
        state = state * 1103515245u + 12345u;
        int target = (int)(state >> 16) % size, what = (int)(state >> 8) % 4;
        if (what < 2) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
            MPI_Get(seen, 2, MPI_INT64_T, target, 0, 2, MPI_INT64_T, win);
            MPI_Win_flush(target, win);
            CHECK(seen[0], -seen[1]);
            seen[0]++;
            MPI_Put(&seen[0], 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
            MPI_Win_flush(target, win);
            seen[1]--;
            MPI_Put(&seen[1], 1, MPI_INT64_T, target, 1, 1, MPI_INT64_T, win);
            MPI_Win_unlock(target, win);
            mine++;
        } else if (what == 2) {
            MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
            MPI_Get(&seen[0], 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
            MPI_Win_flush(target, win);
            MPI_Get(&seen[1], 1, MPI_INT64_T, target, 1, 1, MPI_INT64_T, win);
            MPI_Win_unlock(target, win);
            CHECK(seen[0], -seen[1]);
        } else {
            MPI_Win_lock_all(0, win);
            for (int each = 0; each < size; each++) {
                MPI_Get(seen, 2, MPI_INT64_T, each, 0, 2, MPI_INT64_T, win);
                MPI_Win_flush(each, win);
                CHECK(seen[0], -seen[1]);
            }
            MPI_Win_unlock_all(win);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    value = words[0];
    MPI_Win_unlock(rank, win);
    MPI_Allreduce(&value, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK(total, sum);
    MPI_Win_free(&win);
    passed("contention", "locks");
    return end();
}
