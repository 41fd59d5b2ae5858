/*
 * A stencil: heat in a ring of cells, of which each rank has a part. A rank puts its outer cells into the halos of its neighbours. Even and
 * odd steps have separate halos: a neighbour may put the halos of the next step while this rank still reads the last ones.
 *
 *     mpicc -o stencil stencil.c -lm
 *     rmalab preload -- mpirun -n 4 ./stencil
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { CELLS = 240, STEPS = 400 };

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size, mine = CELLS / size + (rank < CELLS % size);
    int first = rank * (CELLS / size) + (rank < CELLS % size ? rank : CELLS % size);
    /* The window has the left and the right halo of even steps, and then the halos of odd steps. */
    double *halos, cells[CELLS + 2], next[CELLS + 2];
    MPI_Win win;
    MPI_Win_allocate(8 * 4, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &halos, &win);
    for (int i = 1; i <= mine; i++)
        cells[i] = sin((first + i) * 0.37) + (first + i == CELLS / 2 ? 100 : 0);
    MPI_Group all, neighbours;
    MPI_Win_get_group(win, &all);
    int pair[2] = { left, right };
    MPI_Group_incl(all, left == right ? 1 : 2, pair, &neighbours);
    for (int step = 0; step < STEPS; step++) {
        int here = 2 * (step % 2);
        if (step % 2) {
            MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
            MPI_Put(&cells[1], 1, MPI_DOUBLE, left, here + 1, 1, MPI_DOUBLE, win);
            MPI_Put(&cells[mine], 1, MPI_DOUBLE, right, here, 1, MPI_DOUBLE, win);
            MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        } else {
            MPI_Win_post(neighbours, 0, win);
            MPI_Win_start(neighbours, 0, win);
            MPI_Put(&cells[1], 1, MPI_DOUBLE, left, here + 1, 1, MPI_DOUBLE, win);
            MPI_Put(&cells[mine], 1, MPI_DOUBLE, right, here, 1, MPI_DOUBLE, win);
            MPI_Win_complete(win);
            MPI_Win_wait(win);
        }
        cells[0] = halos[here];
        cells[mine + 1] = halos[here + 1];
        for (int i = 1; i <= mine; i++)
            next[i] = 0.25 * cells[i - 1] + 0.5 * cells[i] + 0.25 * cells[i + 1];
        memcpy(&cells[1], &next[1], sizeof(double) * (size_t)mine);
    }
    /* All cells at rank 0, which prints figures that do not depend on the number of ranks. */
    double gathered[CELLS];
    int counts[CELLS], firsts[CELLS];
    for (int i = 0; i < size; i++) {
        counts[i] = CELLS / size + (i < CELLS % size);
        firsts[i] = i ? firsts[i - 1] + counts[i - 1] : 0;
    }
    MPI_Gatherv(&cells[1], mine, MPI_DOUBLE, gathered, counts, firsts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        double heat = 0, warmest = 0;
        for (int i = 0; i < CELLS; i++) {
            heat += gathered[i];
            warmest = fmax(warmest, gathered[i]);
        }
        printf("stencil: heat %.9f, warmest %.9f\n", heat, warmest);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&neighbours);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
