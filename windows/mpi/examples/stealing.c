/*
 * Queues of work, one for each rank. A rank takes tasks from its own queue, and when that is empty, half of another rank's. An exclusive
 * lock of the rank protects its queue. Tasks may make more tasks.
 *
 *     mpicc -o stealing stealing.c
 *     rmalab preload -- mpirun -n 4 ./stealing
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 4096, TASKS = 60, HALF = SIZE / 2 };

/* A queue is its length and its tasks; a task is the depth of a tree that is still to be walked. */
static MPI_Win win;
static int64_t tasks[SIZE];

/* Takes up to `most` tasks of a rank. */
static int take(int from, int most)
{
    int64_t len;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, from, 0, win);
    MPI_Get(&len, 1, MPI_INT64_T, from, 0, 1, MPI_INT64_T, win);
    MPI_Win_flush(from, win);
    int taken = len < most ? (int)len : most;
    if (taken > 0) {
        len -= taken;
        MPI_Get(tasks, taken, MPI_INT64_T, from, 1 + len, taken, MPI_INT64_T, win);
        MPI_Put(&len, 1, MPI_INT64_T, from, 0, 1, MPI_INT64_T, win);
    }
    MPI_Win_unlock(from, win);
    return taken;
}

static void give(int to, const int64_t *some, int count)
{
    int64_t len;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
    MPI_Get(&len, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, win);
    MPI_Win_flush(to, win);
    MPI_Put(some, count, MPI_INT64_T, to, 1 + len, count, MPI_INT64_T, win);
    len += count;
    MPI_Put(&len, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, win);
    MPI_Win_unlock(to, win);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int64_t *queue, *open, done = 0, total = 0, left, change;
    MPI_Win counter;
    MPI_Win_allocate(8 * (SIZE + 1), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &queue, &win);
    MPI_Win_allocate(rank == 0 ? 8 : 0, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &open, &counter);
    memset(queue, 0, 8 * (SIZE + 1));
    if (rank == 0) {
        /* All work begins at rank 0. */
        *open = TASKS;
        queue[0] = TASKS;
        for (int i = 0; i < TASKS; i++)
            queue[1 + i] = i % 6;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, counter);
    for (int victim = rank;;) {
        int taken = take(victim, victim == rank ? 1 : HALF);
        for (int i = 0; i < taken; i++) {
            int64_t depth = tasks[i], children[2] = { depth - 1, depth - 1 };
            done++;
            if (depth > 0)
                give(rank, children, 2);
            change = depth > 0 ? 1 : -1;
            MPI_Accumulate(&change, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, counter);
            MPI_Win_flush(0, counter);
        }
        if (taken > 0) {
            victim = rank;
            continue;
        }
        MPI_Fetch_and_op(NULL, &left, MPI_INT64_T, 0, 0, MPI_NO_OP, counter);
        MPI_Win_flush(0, counter);
        if (left == 0)
            break;
        victim = (victim + 1) % size;
    }
    MPI_Win_unlock_all(counter);
    MPI_Reduce(&done, &total, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("stealing: %d tasks done\n", (int)total);
    MPI_Win_free(&win);
    MPI_Win_free(&counter);
    MPI_Finalize();
    return 0;
}
