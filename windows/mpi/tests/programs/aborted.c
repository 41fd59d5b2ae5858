/* A rank ends the job, is killed, or stays forever, while it holds a lock that the other ranks wait for: aborted HOW */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Win win;
    int64_t *words;
    make_window(64, 8, &words, &win);
    if (rank == 0)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        usleep(100000);
        if (argc > 1 && !strcmp(argv[1], "killed"))
            raise(SIGKILL);
        while (argc > 1 && !strcmp(argv[1], "forever"))
            pause();
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    return 0;
}
