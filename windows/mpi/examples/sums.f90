! Each rank adds its numbers to a histogram that all ranks have parts of, by accumulates in an epoch of locks.
!
!     mpifort -o sums sums.f90
!     rmalab preload -- mpirun -n 4 ./sums
program sums
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    integer, parameter :: bins = 64, numbers = 500
    integer :: rank, ranks, i, bin, home
    integer(kind=MPI_ADDRESS_KIND) :: bytes, disp
    integer(kind=8), parameter :: one = 1
    integer(kind=8), pointer :: mine(:)
    integer(kind=8) :: checksum, total
    type(c_ptr) :: memory
    type(MPI_Win) :: win

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    bytes = 8 * bins
    call MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, memory, win)
    call c_f_pointer(memory, mine, [bins])
    mine = 0
    call MPI_Win_fence(0, win)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)
    call MPI_Win_lock_all(0, win)
    do i = rank + 1, numbers, ranks
        bin = mod(i * i, bins)
        home = mod(bin, ranks)
        disp = bin
        call MPI_Accumulate(one, 1, MPI_INTEGER8, home, disp, 1, MPI_INTEGER8, MPI_SUM, win)
    end do
    call MPI_Win_unlock_all(win)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)
    checksum = 0
    do i = 1, bins
        checksum = checksum + i * mine(i)
    end do
    call MPI_Win_unlock(rank, win)
    call MPI_Reduce(checksum, total, 1, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD)
    if (rank == 0) print '(a, i0)', 'sums: checksum ', total
    call MPI_Win_free(win)
    call MPI_Finalize()
end program
