/* The programs' common code: each rank makes checks, and rank 0 reports their failures. */
#ifndef CHECK_H
#define CHECK_H
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, after, before;
static long failures, all_failures;

static inline void begin(int *argc, char ***argv)
{
    /* A program that hangs ends. */
    alarm(240);
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    after = (rank + 1) % size;
    before = (rank + size - 1) % size;
}

/* Makes a window over all ranks. Its memory is its own, or the program's, as the variable TEST_WINDOW says. */
static inline void make_window_with(MPI_Info info, MPI_Aint bytes, int unit, void *memory, MPI_Win *win)
{
    const char *kind = getenv("TEST_WINDOW");
    if (kind && !strcmp(kind, "create")) {
        void *own = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
        *(void **)memory = own;
        MPI_Win_create(own, bytes, unit, info, MPI_COMM_WORLD, win);
    } else {
        MPI_Win_allocate(bytes, unit, info, MPI_COMM_WORLD, memory, win);
    }
}

static inline void make_window(MPI_Aint bytes, int unit, void *memory, MPI_Win *win)
{
    make_window_with(MPI_INFO_NULL, bytes, unit, memory, win);
}

#define CHECK(what, expected)                                                                                              \
    do {                                                                                                                   \
        long long check_found = (long long)(what), check_expected = (long long)(expected);                                 \
        if (check_found != check_expected) {                                                                               \
            failures++;                                                                                                    \
            fprintf(stderr, "%s:%d: rank %d of %d: %s is %lld, not %lld\n", __FILE__, __LINE__, rank, size, #what,         \
                check_found, check_expected);                                                                              \
        }                                                                                                                  \
    } while (0)

/* Reports a case, which all ranks have finished. */
static inline void passed(const char *flavor, const char *name)
{
    long all;
    MPI_Allreduce(&failures, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %s: %s\n", flavor, name, all ? "FAILED" : "ok");
    all_failures += all;
    failures = 0;
}

static inline int end(void)
{
    MPI_Finalize();
    return all_failures ? 1 : 0;
}
#endif
