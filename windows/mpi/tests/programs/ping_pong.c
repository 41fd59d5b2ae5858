/*
 * Messages between rank 0 and rank 1, and no window: the library's cost for a program that does not use it.
 *
 *     ping_pong MILLISECONDS
 *
 * Rank 0 prints a line for each size: bytes, nanoseconds of a message. Then the largest resident memory of a rank, in KiB.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#define LARGEST (1 << 20)
#define BATCHES 9

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Binds this rank to a separate processor, if there is one. */
static void bind_to_core(void)
{
    cpu_set_t may, one;
    if (sched_getaffinity(0, sizeof may, &may))
        return;
    int wanted = rank % CPU_COUNT(&may);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &may) && wanted-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    double budget = (argc > 1 ? atof(argv[1]) : 20) * 1e6;
    char *buffer = calloc(1, LARGEST);
    bind_to_core();
    for (int bytes = 8; bytes <= LARGEST; bytes *= 16) {
        double times[BATCHES];
        long rounds = 100;
        for (int batch = -1; batch < BATCHES; batch++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double begin = now();
            for (long i = 0; i < rounds && rank < 2; i++) {
                if (rank == 0)
                    MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
                MPI_Recv(buffer, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (rank == 1)
                    MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
            }
            double time = (now() - begin) / (2.0 * rounds);
            /* The first batch shows how many rounds fill the others. */
            if (batch < 0) {
                rounds = (long)(budget / BATCHES / (2 * time)) + 1;
                MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
            } else
                times[batch] = time;
        }
        qsort(times, BATCHES, sizeof *times, ascending);
        if (rank == 0)
            printf("%d %.1f\n", bytes, times[BATCHES / 2]);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    long most = usage.ru_maxrss;
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("memory %ld\n", most);
    free(buffer);
    return end();
}
