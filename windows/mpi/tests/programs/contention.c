/* Ranks contend for locks: counters that only exclusive locks protect, and pairs of words that readers must not see torn.
   The arguments are the number of rounds, and the policies of the library that are tried in turn. */
#include "check.h"

static void contend(int rounds, const char *policy)
{
    MPI_Win win;
    MPI_Info info = MPI_INFO_NULL;
    int64_t *words, seen[2], value, total, sum, mine = 0;
    unsigned state = 12345u + (unsigned)rank;
    alarm(240);
    if (policy) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "rmalab_lock_policy", policy);
    }
    make_window_with(info, 64, 8, &words, &win);
    if (policy) {
        char value[MPI_MAX_INFO_VAL] = "";
        int has = 0;
        MPI_Info_free(&info);
        MPI_Win_get_info(win, &info);
        MPI_Info_get(info, "rmalab_lock_policy", MPI_MAX_INFO_VAL - 1, value, &has);
        MPI_Info_free(&info);
        CHECK(strcmp(value, policy), 0);
    }
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
    passed("contention", policy ? policy : "locks");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    if (argc <= 2)
        contend(rounds, NULL);
    for (int each = 2; each < argc; each++)
        contend(rounds, argv[each]);
    return end();
}
