"""A hash table over all ranks: a compare-and-swap claims a place for a key, and accumulates count how often it was inserted.

rmalab preload -- mpirun -n 4 python3 hash_table.py
"""

from array import array

from mpi4py import MPI

KEYS, PLACES = 200, 256
ONE, NONE = array("Q", [1]), array("Q", [0])

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
win = MPI.Win.Allocate(16 * PLACES, 8, comm=comm)
table = memoryview(win.tomemory()).cast("Q")
for i in range(2 * PLACES):
    table[i] = 0
comm.Barrier()

win.Lock_all()
for i in range(rank, KEYS, size):
    key = array("Q", [1 + i * i % 97])
    hashed = key[0] * 0x9E3779B97F4A7C15 % 2**64
    home, place = hashed % size, hashed >> 32
    while True:
        at = place % PLACES * 2
        found = array("Q", [0])
        win.Compare_and_swap(key, NONE, found, home, at)
        win.Flush_local(home)
        if found[0] in (0, key[0]):
            win.Accumulate(ONE, home, at + 1, op=MPI.SUM)
            win.Flush_local(home)
            break
        place += 1
win.Unlock_all()
comm.Barrier()

win.Lock(rank, MPI.LOCK_SHARED)
keys = sum(table[2 * i] != 0 for i in range(PLACES))
weighted = sum(table[2 * i] * table[2 * i + 1] for i in range(PLACES))
win.Unlock(rank)
keys, weighted = comm.reduce(keys), comm.reduce(weighted)
if rank == 0:
    print(f"hash table: {keys} keys, sum {weighted}")
win.Free()
