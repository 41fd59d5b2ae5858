/* Wrong calls on a window: each returns the class that the standard names, and calls the window's error handler once. */
#include "check.h"

static int handled, handled_class;
static MPI_Win handled_win;

static void handle(MPI_Win *win, int *code, ...)
{
    handled++;
    handled_win = *win;
    MPI_Error_class(*code, &handled_class);
}

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

#define WRONG(call, class)                                                                                                 \
    do {                                                                                                                   \
        handled = 0;                                                                                                       \
        CHECK(class_of(call), class);                                                                                      \
        CHECK(handled, 1);                                                                                                 \
        CHECK(handled_class, class);                                                                                       \
        CHECK(handled_win == win, 1);                                                                                      \
    } while (0)

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Win win;
    MPI_Errhandler handler;
    MPI_Request request;
    MPI_Group all, self, none_of_mine;
    int64_t *words, value = 1, result;
    int flag;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    words[0] = 0;
    MPI_Win_create_errhandler(handle, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &rank, &self);
    MPI_Group_excl(all, 1, &rank, &none_of_mine);
    MPI_Barrier(MPI_COMM_WORLD);

    WRONG(MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Get(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Accumulate(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Fetch_and_op(&value, &result, MPI_INT64_T, 0, 0, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Compare_and_swap(&value, &value, &result, MPI_INT64_T, 0, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Rput(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win, &request), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_flush_local(0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
    passed("errors", "no epoch");

    WRONG(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win), MPI_ERR_RANK);
    WRONG(MPI_Win_lock(MPI_LOCK_SHARED, -77, 0, win), MPI_ERR_RANK);
    WRONG(MPI_Win_lock(4711, 0, 0, win), MPI_ERR_LOCKTYPE);
    MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win);
    WRONG(MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_post(self, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_unlock(size, win), MPI_ERR_RANK);
    if (size > 1)
        WRONG(MPI_Put(&value, 1, MPI_INT64_T, rank, 0, 1, MPI_INT64_T, win), MPI_ERR_RMA_SYNC);
    MPI_Win_unlock(after, win);
    passed("errors", "lock");

    /* MPICH 4.0 ends the program, past the window's handler, and Open MPI 4.1 takes this for a group of no ranks. */
    WRONG(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    WRONG(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Win_start(MPI_GROUP_NULL, 0, win)), MPI_ERR_GROUP);
    CHECK(class_of(MPI_Win_post(MPI_GROUP_NULL, 0, win)), MPI_ERR_GROUP);
    MPI_Win_set_errhandler(win, handler);
    passed("errors", "no group");

    MPI_Win_lock_all(0, win);
    WRONG(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Put(&value, 1, MPI_INT64_T, size, 0, 1, MPI_INT64_T, win), MPI_ERR_RANK);
    WRONG(MPI_Win_flush(size, win), MPI_ERR_RANK);
    MPI_Win_unlock_all(win);
    passed("errors", "lock_all");

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_post(self, 0, win);
    MPI_Win_start(self, 0, win);
    WRONG(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_post(self, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Rput(&value, 1, MPI_INT64_T, rank, 0, 1, MPI_INT64_T, win, &request), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_flush(rank, win), MPI_ERR_RMA_SYNC);
    if (size > 1)
        WRONG(MPI_Put(&value, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win), MPI_ERR_RMA_SYNC);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    passed("errors", "start and post");

    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win);
    WRONG(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    WRONG(MPI_Rput(&value, 1, MPI_INT64_T, rank, 0, 1, MPI_INT64_T, win, &request), MPI_ERR_RMA_SYNC);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    WRONG(MPI_Put(&value, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win), MPI_ERR_RMA_SYNC);
    CHECK(words[0], 1);
    passed("errors", "fence");

    /* The window still works, and its end reports the epoch that was left open. */
    handled = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    value = 5;
    MPI_Put(&value, 1, MPI_INT64_T, after, 0, 1, MPI_INT64_T, win);
    MPI_Win_unlock(after, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(words[0], 5);
    CHECK(handled, 0);
    CHECK(class_of(MPI_Win_free(&win)), MPI_ERR_RMA_SYNC);
    CHECK(handled, 1);
    CHECK(win == MPI_WIN_NULL, 1);
    passed("errors", "free");

    MPI_Group_free(&all);
    MPI_Group_free(&self);
    MPI_Group_free(&none_of_mine);
    MPI_Errhandler_free(&handler);
    return end();
}
