/*
 * The choices of a window's user, as MPI_Win_get_info reports them: choices THREADS KEY=VALUE... -- KEY=VALUE...
 *
 * Pairs before `--` are given when the window is made; those after it are expected. Of a value A|B, rank 0 takes A.
 */
#include "check.h"

int main(int argc, char **argv)
{
    int provided, at = 2, flag;
    alarm(60);
    MPI_Init_thread(&argc, &argv, strcmp(argv[1], "multiple") ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Info info, found;
    MPI_Win win;
    int64_t *words;
    char value[MPI_MAX_INFO_VAL + 1];
    MPI_Info_create(&info);
    for (; at < argc && strcmp(argv[at], "--"); at++) {
        char *equals = strchr(argv[at], '=');
        char *others = strchr(equals, '|');
        *equals = 0;
        if (others)
            *others = 0;
        MPI_Info_set(info, argv[at], others && rank > 0 ? others + 1 : equals + 1);
    }
    MPI_Win_allocate(64, 8, info, MPI_COMM_WORLD, &words, &win);
    MPI_Info_free(&info);
    MPI_Win_get_info(win, &found);
    for (at++; at < argc; at++) {
        char *equals = strchr(argv[at], '=');
        *equals = 0;
        value[0] = 0;
        MPI_Info_get(found, argv[at], MPI_MAX_INFO_VAL, value, &flag);
        if (strcmp(value, equals + 1)) {
            failures++;
            fprintf(stderr, "rank %d: %s is '%s', not '%s'\n", rank, argv[at], value, equals + 1);
        }
    }
    MPI_Info_free(&found);
    /* Whatever is in force works. */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Win_unlock(0, win);
    MPI_Win_free(&win);
    passed("choices", "in force");
    return end();
}
