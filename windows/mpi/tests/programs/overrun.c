/* A put that reads 4 bytes beyond its buffer, of as many words as the argument says: AddressSanitizer ends it. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Win win;
    int64_t *words, value = 1;
    begin(&argc, &argv);
    int count = atoi(argv[1]);
    char *source = calloc(1, 8 * (size_t)count - 4);
    MPI_Win_allocate(8 * count, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    MPI_Win_lock_all(0, win);
    /* The second put of a type takes the short path. */
    MPI_Put(&value, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win);
    MPI_Put(source, count, MPI_INT64_T, after, 0, count, MPI_INT64_T, win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(source);
    return end();
}
