/*
 * A hash table over all ranks. A place is a key and a count: a compare_and_swap claims the place for a key, and accumulates count how often
 * the key was inserted.
 *
 *     mpicc -o hash_table hash_table.c
 *     rmalab preload -- mpirun -n 4 ./hash_table
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 300, PLACES = 512 };

/* The numbers that all ranks together insert. */
static uint64_t number(int i)
{
    return 1 + (uint64_t)i * (uint64_t)i % 211;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    uint64_t *table;
    MPI_Win win;
    MPI_Win_allocate(16 * PLACES, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &table, &win);
    memset(table, 0, 16 * PLACES);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = rank; i < KEYS; i += size) {
        const uint64_t key = number(i), one = 1, none = 0;
        uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15), found;
        int home = (int)(hash % (uint64_t)size);
        for (uint64_t place = hash >> 32;; place++) {
            MPI_Aint at = (MPI_Aint)(place % PLACES * 2);
            MPI_Compare_and_swap(&key, &none, &found, MPI_UINT64_T, home, at, win);
            MPI_Win_flush_local(home, win);
            if (found == none || found == key) {
                MPI_Accumulate(&one, 1, MPI_UINT64_T, home, at + 1, 1, MPI_UINT64_T, MPI_SUM, win);
                break;
            }
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Each rank reads its own part. */
    uint64_t sums[3] = { 0 }, all[3];
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int i = 0; i < PLACES; i++) {
        sums[0] += table[2 * i] != 0;
        sums[1] += table[2 * i + 1];
        sums[2] += table[2 * i] * table[2 * i + 1];
    }
    MPI_Win_unlock(rank, win);
    MPI_Reduce(sums, all, 3, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("hash table: %d keys, %d insertions, sum %d\n", (int)all[0], (int)all[1], (int)all[2]);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
