"""A stencil: heat in a ring of cells, of which each rank has a part, with halos by puts between fences.

rmalab preload -- mpirun -n 4 python3 stencil.py
"""

from array import array
from math import sin

from mpi4py import MPI

CELLS, STEPS = 120, 100

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size
firsts = [CELLS * r // size for r in range(size + 1)]
mine = firsts[rank + 1] - firsts[rank]

# The left and the right halo of even steps, and then of odd steps: a neighbour may put halos of the next step while this rank still
# reads the last ones.
win = MPI.Win.Allocate(8 * 4, 8, comm=comm)
halos = memoryview(win.tomemory()).cast("d")
cells = [sin((firsts[rank] + i) * 0.37) for i in range(1, mine + 1)]

for step in range(STEPS):
    here = 2 * (step % 2)
    win.Fence(MPI.MODE_NOPRECEDE)
    win.Put([array("d", [cells[0]]), MPI.DOUBLE], left, here + 1)
    win.Put([array("d", [cells[-1]]), MPI.DOUBLE], right, here)
    win.Fence(MPI.MODE_NOSUCCEED)
    wide = [halos[here], *cells, halos[here + 1]]
    cells = [0.25 * wide[i - 1] + 0.5 * wide[i] + 0.25 * wide[i + 1] for i in range(1, mine + 1)]

parts = comm.gather(cells)
if rank == 0:
    every = [cell for part in parts for cell in part]
    print(f"stencil: heat {sum(every):.9f}, warmest {max(every):.9f}")
win.Free()
