! Some calls on windows from Fortran, by `use mpi`, or by mpif.h with -DMPIF. The first argument is the mode that the window is to have.
program fortran_old
#ifndef MPIF
    use mpi
#endif
    implicit none
#ifdef MPIF
    include 'mpif.h'
#endif
    integer :: rank, ranks, after, before, win, request, info, failures, all_failures, i, ierror
    integer(kind=MPI_ADDRESS_KIND) :: bytes, value, disp
    integer(kind=8) :: own(8), mine(2), old, one, got
    logical :: found
    character(len=32) :: mode, wanted

    call MPI_INIT(ierror)
    call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
    call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)
    after = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    failures = 0
    one = 1
    own = 0
    bytes = 64
    call MPI_WIN_CREATE(own, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_WIN_GET_ATTR(win, MPI_WIN_SIZE, value, found, ierror)
    call check(found .and. value == 64, 'the size')
    call MPI_WIN_GET_INFO(win, info, ierror)
    mode = ' '
    call MPI_INFO_GET(info, 'rmalab_mode', 31, mode, found, ierror)
    call MPI_INFO_FREE(info, ierror)
    call get_command_argument(1, wanted)
    if (wanted /= ' ') call check(found .and. mode == wanted, 'the mode ' // trim(mode))
    disp = 1
    mine = [10 + rank, 20 + rank]
    call MPI_WIN_FENCE(0, win, ierror)
    call MPI_PUT(mine, 2, MPI_INTEGER8, after, disp, 2, MPI_INTEGER8, win, ierror)
    call MPI_WIN_FENCE(MPI_MODE_NOSUCCEED, win, ierror)
    call check(own(2) == 10 + before .and. own(3) == 20 + before, 'a put')
    call MPI_WIN_LOCK(MPI_LOCK_SHARED, 0, 0, win, ierror)
    disp = 4
    call MPI_FETCH_AND_OP(one, old, MPI_INTEGER8, 0, disp, MPI_SUM, win, ierror)
    call MPI_WIN_UNLOCK(0, win, ierror)
    call check(old >= 0 .and. old < ranks, 'fetch_and_op')
    do i = 1, 20
        call MPI_WIN_LOCK(MPI_LOCK_EXCLUSIVE, 0, 0, win, ierror)
        disp = 5
        call MPI_GET(got, 1, MPI_INTEGER8, 0, disp, 1, MPI_INTEGER8, win, ierror)
        call MPI_WIN_FLUSH(0, win, ierror)
        got = got + 1
        call MPI_PUT(got, 1, MPI_INTEGER8, 0, disp, 1, MPI_INTEGER8, win, ierror)
        call MPI_WIN_UNLOCK(0, win, ierror)
    end do
    call MPI_BARRIER(MPI_COMM_WORLD, ierror)
    call MPI_WIN_LOCK_ALL(0, win, ierror)
    disp = 5
    call MPI_RGET(got, 1, MPI_INTEGER8, 0, disp, 1, MPI_INTEGER8, win, request, ierror)
    call MPI_WAIT(request, MPI_STATUS_IGNORE, ierror)
    call MPI_WIN_UNLOCK_ALL(win, ierror)
    call check(got == 20 * ranks, 'a counter that a lock protects')
    call MPI_WIN_FREE(win, ierror)
    call check(win == MPI_WIN_NULL, 'the freed window')
    call MPI_ALLREDUCE(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    if (rank == 0) print '(a, i0, a)', 'Fortran: ', all_failures, ' failures'
    call MPI_FINALIZE(ierror)
    if (all_failures > 0) stop 1
contains
    subroutine check(holds, what)
        logical, intent(in) :: holds
        character(len=*), intent(in) :: what
        if (holds) return
        failures = failures + 1
        print '(a, i0, 2a)', 'rank ', rank, ': wrong: ', what
    end subroutine
end program
