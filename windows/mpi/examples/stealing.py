"""Queues of work, one for each rank, which an exclusive lock protects. A rank whose queue is empty takes from other ranks.

rmalab preload -- mpirun -n 4 python3 stealing.py
"""

from array import array

from mpi4py import MPI

SIZE, TASKS = 512, 40

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
win = MPI.Win.Allocate(8 * (SIZE + 1), 8, comm=comm)
queue = memoryview(win.tomemory()).cast("q")
for i in range(SIZE + 1):
    queue[i] = 0
if rank == 0:
    queue[0] = TASKS
    for i in range(TASKS):
        queue[1 + i] = i
comm.Barrier()


def take(victim):
    """Returns the last task of a rank, or None."""
    length, task = array("q", [0]), array("q", [0])
    win.Lock(victim, MPI.LOCK_EXCLUSIVE)
    win.Get(length, victim, 0)
    win.Flush(victim)
    taken = length[0] > 0
    if taken:
        win.Get(task, victim, length[0])
        length[0] -= 1
        win.Put(length, victim, 0)
    win.Unlock(victim)
    return task[0] if taken else None


results = 0
victim, empty = rank, 0
while empty < size:
    task = take(victim)
    if task is None:
        victim, empty = (victim + 1) % size, empty + 1
    else:
        results += task * task
        empty = 0
total = comm.reduce(results)
if rank == 0:
    print(f"stealing: sum of squares {total}")
win.Free()
