! The calls on windows from Fortran, by the module mpi_f08. Each case checks its results; `managed` in the first argument wants the
! window to be the library's.
program fortran_f08
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    integer :: rank, ranks, after, before, unit, failures, all_failures, i
    integer(kind=MPI_ADDRESS_KIND) :: bytes, value, disp
    integer(kind=8) :: one, old, got, expected
    integer(kind=8), pointer :: words(:), there(:)
    integer(kind=8), target :: mine(4)
    integer(kind=8) :: own(8)
    type(c_ptr) :: memory, other
    type(MPI_Win) :: win, shared, created, dynamic
    type(MPI_Group) :: all_ranks, to, from
    type(MPI_Info) :: info
    type(MPI_Request) :: request
    type(MPI_Errhandler) :: handler
    logical :: found, over
    character(len=32) :: mode, wanted

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    after = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    failures = 0
    one = 1

    bytes = 64
    call MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, memory, win)
    call c_f_pointer(memory, words, [8])
    words = 0
    call MPI_Barrier(MPI_COMM_WORLD)

    ! The attributes are values, not addresses of them.
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, found)
    call check(found .and. value == 64, 'the size')
    call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, found)
    call check(found .and. value == 8, 'the unit')
    call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, found)
    call check(found .and. value == MPI_WIN_FLAVOR_ALLOCATE, 'the flavor')
    call MPI_Win_get_attr(win, MPI_WIN_MODEL, value, found)
    call check(found .and. value == MPI_WIN_UNIFIED, 'the model')
    call MPI_Win_get_attr(win, MPI_WIN_BASE, value, found)
    call check(found .and. value == transfer(memory, value), 'the base')
    call MPI_Win_get_info(win, info)
    mode = ' '
    call MPI_Info_get(info, 'rmalab_mode', 31, mode, found)
    call MPI_Info_free(info)
    call get_command_argument(1, wanted)
    if (wanted /= ' ') call check(found .and. mode == wanted, 'the mode ' // trim(mode))
    call MPI_Win_set_name(win, 'halo')
    call MPI_Win_get_group(win, all_ranks)
    call MPI_Group_size(all_ranks, i)
    call check(i == ranks, 'the group')

    ! Locks.
    disp = 1
    mine = [10 + rank, 20 + rank, 30 + rank, 40 + rank]
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win)
    call MPI_Put(mine, 2, MPI_INTEGER8, after, disp, 2, MPI_INTEGER8, win)
    call MPI_Win_flush(after, win)
    got = 0
    call MPI_Get(got, 1, MPI_INTEGER8, after, 2_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, win)
    call MPI_Win_unlock(after, win)
    call check(got == 20 + rank, 'a get after a put')
    do i = 1, 20
        call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)
        call MPI_Get(got, 1, MPI_INTEGER8, 0, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, win)
        call MPI_Win_flush_local(0, win)
        got = got + 1
        call MPI_Put(got, 1, MPI_INTEGER8, 0, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, win)
        call MPI_Win_unlock(0, win)
    end do
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)
    if (rank == 0) call check(words(1) == 20 * ranks, 'a counter that a lock protects')
    call check(words(2) == 10 + before, 'a put')
    call MPI_Win_unlock(rank, win)
    call MPI_Barrier(MPI_COMM_WORLD)

    ! Updates, with and without requests.
    call MPI_Win_lock_all(0, win)
    call MPI_Fetch_and_op(one, old, MPI_INTEGER8, 0, 3_MPI_ADDRESS_KIND, MPI_SUM, win)
    call MPI_Win_flush(0, win)
    call check(old >= 0 .and. old < ranks, 'fetch_and_op')
    call MPI_Accumulate(one, 1, MPI_INTEGER8, 0, 4_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, MPI_SUM, win)
    call MPI_Get_accumulate(one, 1, MPI_INTEGER8, old, 1, MPI_INTEGER8, 0, 5_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, MPI_SUM, win)
    call MPI_Raccumulate(one, 1, MPI_INTEGER8, 0, 6_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, MPI_SUM, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Rget_accumulate(one, 1, MPI_INTEGER8, old, 1, MPI_INTEGER8, 0, 6_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, MPI_SUM, win, &
        request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Win_flush_all(win)
    call MPI_Win_flush_local_all(win)
    call MPI_Win_sync(win)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Win_sync(win)
    if (rank == 0) call check(all(words(4:7) == [ranks, ranks, ranks, 2 * ranks]), 'updates')
    expected = 0
    mine(1) = rank + 1
    call MPI_Compare_and_swap(mine(1), expected, old, MPI_INTEGER8, 0, 7_MPI_ADDRESS_KIND, win)
    call MPI_Win_flush(0, win)
    call check((old == 0) .or. (old >= 1 .and. old <= ranks), 'compare_and_swap')
    call MPI_Rput(mine, 1, MPI_INTEGER8, after, disp, 1, MPI_INTEGER8, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Win_flush(after, win)
    call MPI_Rget(got, 1, MPI_INTEGER8, after, disp, 1, MPI_INTEGER8, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(got == rank + 1, 'requests')
    call MPI_Win_unlock_all(win)

    ! Fences, and a group.
    call MPI_Win_fence(MPI_MODE_NOPRECEDE, win)
    mine(1) = 100 + rank
    call MPI_Put(mine, 1, MPI_INTEGER8, after, disp, 1, MPI_INTEGER8, win)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)
    call check(words(2) == 100 + before, 'a fence')
    call MPI_Group_incl(all_ranks, 1, [after], to)
    call MPI_Group_incl(all_ranks, 1, [before], from)
    do i = 1, 2
        mine(1) = 200 * i + rank
        call MPI_Win_post(from, 0, win)
        call MPI_Win_start(to, 0, win)
        call MPI_Put(mine, 1, MPI_INTEGER8, after, disp, 1, MPI_INTEGER8, win)
        call MPI_Win_complete(win)
        if (i == 1) then
            call MPI_Win_wait(win)
        else
            over = .false.
            do while (.not. over)
                call MPI_Win_test(win, over)
            end do
        end if
        call check(words(2) == 200 * i + before, 'post, start, complete, wait')
    end do
    call MPI_Group_free(to)
    call MPI_Group_free(from)
    call MPI_Group_free(all_ranks)
    call MPI_Win_get_errhandler(win, handler)
    call MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN)
    call MPI_Put(mine, 1, MPI_INTEGER8, after, disp, 1, MPI_INTEGER8, win, i)
    if (wanted /= ' ' .and. wanted /= 'off') call check(i /= MPI_SUCCESS, 'an error')
    call MPI_Errhandler_free(handler)
    call MPI_Win_free(win)
    call check(win == MPI_WIN_NULL, 'the freed window')

    ! Other flavors.
    call MPI_Win_allocate_shared(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, memory, shared)
    call c_f_pointer(memory, words, [8])
    words = rank
    call MPI_Win_fence(0, shared)
    call MPI_Win_shared_query(shared, after, value, unit, other)
    call c_f_pointer(other, there, [8])
    call check(there(8) == after .and. value == 64 .and. unit == 8, 'shared_query')
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, shared)
    call MPI_Win_free(shared)
    own = 0
    call MPI_Win_create(own, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, created)
    call MPI_Win_fence(0, created)
    call MPI_Put(mine, 1, MPI_INTEGER8, after, disp, 1, MPI_INTEGER8, created)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, created)
    call check(own(2) == 400 + before, 'a created window')
    call MPI_Win_free(created)
    call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, dynamic)
    call MPI_Win_free(dynamic)

    call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0) print '(a, i0, a)', 'Fortran, module mpi_f08: ', all_failures, ' failures'
    call MPI_Finalize()
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
