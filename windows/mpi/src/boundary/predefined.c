/* The host's predefined types, operations and attributes, which the bindings of mpi-sys do not have. */
#include <mpi.h>

struct rmalab_type {
    MPI_Datatype type;
    /* i: signed, u: unsigned, f: float, c: complex, l: logical, b: byte, p: pair of integers, q: pair of a float and an integer,
       -: no type of rmalab's */
    char class;
};

const struct rmalab_type rmalab_mpi_types[] = {
    { MPI_CHAR, 'i' }, { MPI_SIGNED_CHAR, 'i' }, { MPI_UNSIGNED_CHAR, 'u' }, { MPI_BYTE, 'b' }, { MPI_WCHAR, 'u' },
    { MPI_SHORT, 'i' }, { MPI_UNSIGNED_SHORT, 'u' }, { MPI_INT, 'i' }, { MPI_UNSIGNED, 'u' }, { MPI_LONG, 'i' },
    { MPI_UNSIGNED_LONG, 'u' }, { MPI_LONG_LONG, 'i' }, { MPI_UNSIGNED_LONG_LONG, 'u' }, { MPI_FLOAT, 'f' }, { MPI_DOUBLE, 'f' },
    { MPI_LONG_DOUBLE, '-' }, { MPI_INT8_T, 'i' }, { MPI_INT16_T, 'i' }, { MPI_INT32_T, 'i' }, { MPI_INT64_T, 'i' },
    { MPI_UINT8_T, 'u' }, { MPI_UINT16_T, 'u' }, { MPI_UINT32_T, 'u' }, { MPI_UINT64_T, 'u' }, { MPI_AINT, 'i' },
    { MPI_OFFSET, 'i' }, { MPI_COUNT, 'i' }, { MPI_C_BOOL, 'l' }, { MPI_CXX_BOOL, 'l' }, { MPI_C_FLOAT_COMPLEX, 'c' },
    { MPI_C_DOUBLE_COMPLEX, 'c' }, { MPI_C_LONG_DOUBLE_COMPLEX, '-' }, { MPI_CXX_FLOAT_COMPLEX, 'c' },
    { MPI_CXX_DOUBLE_COMPLEX, 'c' }, { MPI_CXX_LONG_DOUBLE_COMPLEX, '-' }, { MPI_FLOAT_INT, 'q' }, { MPI_DOUBLE_INT, '-' },
    { MPI_LONG_INT, '-' }, { MPI_SHORT_INT, '-' }, { MPI_2INT, 'p' }, { MPI_LONG_DOUBLE_INT, '-' }, { MPI_PACKED, 'b' },
    /* Fortran's types. The compiler chooses Fortran's truth values, so the host combines them. */
    { MPI_INTEGER, 'i' }, { MPI_REAL, 'f' }, { MPI_DOUBLE_PRECISION, 'f' }, { MPI_COMPLEX, 'c' }, { MPI_DOUBLE_COMPLEX, 'c' },
    { MPI_LOGICAL, '-' }, { MPI_CHARACTER, '-' }, { MPI_2INTEGER, 'p' }, { MPI_2REAL, '-' }, { MPI_2DOUBLE_PRECISION, '-' },
    { MPI_INTEGER1, 'i' }, { MPI_INTEGER2, 'i' }, { MPI_INTEGER4, 'i' }, { MPI_INTEGER8, 'i' }, { MPI_REAL4, 'f' },
    { MPI_REAL8, 'f' }, { MPI_COMPLEX8, 'c' }, { MPI_COMPLEX16, 'c' },
#ifdef MPI_INTEGER16
    { MPI_INTEGER16, '-' },
#endif
#ifdef MPI_REAL16
    { MPI_REAL16, '-' },
#endif
#ifdef MPI_COMPLEX32
    { MPI_COMPLEX32, '-' },
#endif
};
const int rmalab_mpi_types_count = sizeof rmalab_mpi_types / sizeof *rmalab_mpi_types;

/* In the order of rmalab's operations. */
const MPI_Op rmalab_mpi_ops[] = { MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR,
    MPI_REPLACE, MPI_NO_OP, MPI_MINLOC, MPI_MAXLOC };

const int rmalab_mpi_win_base = MPI_WIN_BASE;
const int rmalab_mpi_win_size = MPI_WIN_SIZE;
const int rmalab_mpi_win_disp_unit = MPI_WIN_DISP_UNIT;
const int rmalab_mpi_win_create_flavor = MPI_WIN_CREATE_FLAVOR;
const int rmalab_mpi_win_model = MPI_WIN_MODEL;
const int rmalab_mpi_flavor_allocate = MPI_WIN_FLAVOR_ALLOCATE;
const int rmalab_mpi_flavor_shared = MPI_WIN_FLAVOR_SHARED;
const int rmalab_mpi_flavor_create = MPI_WIN_FLAVOR_CREATE;
const int rmalab_mpi_flavor_dynamic = MPI_WIN_FLAVOR_DYNAMIC;
const int rmalab_mpi_model_unified = MPI_WIN_UNIFIED;

const MPI_Datatype rmalab_mpi_packed = MPI_PACKED;

#if MPI_VERSION >= 4
const MPI_Errhandler rmalab_mpi_errors_abort = MPI_ERRORS_ABORT;
#else
const MPI_Errhandler rmalab_mpi_errors_abort = MPI_ERRORS_ARE_FATAL;
#endif

/* In the order of types.rs. */
const int rmalab_mpi_combiners[] = { MPI_COMBINER_NAMED, MPI_COMBINER_DUP, MPI_COMBINER_CONTIGUOUS, MPI_COMBINER_VECTOR,
    MPI_COMBINER_HVECTOR, MPI_COMBINER_INDEXED, MPI_COMBINER_HINDEXED, MPI_COMBINER_INDEXED_BLOCK, MPI_COMBINER_HINDEXED_BLOCK,
    MPI_COMBINER_STRUCT, MPI_COMBINER_SUBARRAY, MPI_COMBINER_DARRAY, MPI_COMBINER_RESIZED };
const int rmalab_mpi_order_fortran = MPI_ORDER_FORTRAN;
const int rmalab_mpi_distribute_none = MPI_DISTRIBUTE_NONE;
const int rmalab_mpi_distribute_cyclic = MPI_DISTRIBUTE_CYCLIC;
const int rmalab_mpi_distribute_default = MPI_DISTRIBUTE_DFLT_DARG;
