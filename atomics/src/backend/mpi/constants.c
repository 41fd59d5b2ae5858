/* What mpi-sys does not bind: operations that MPI's headers define by expressions of C. */
#include <mpi.h>

const MPI_Op rmalab_replace = MPI_REPLACE;
const MPI_Op rmalab_no_op = MPI_NO_OP;
const int rmalab_win_model = MPI_WIN_MODEL;
const int rmalab_win_unified = MPI_WIN_UNIFIED;
