/*
 * Every predefined type, Fortran's included, with every operation that the standard has for it: accumulate, get_accumulate and
 * fetch_and_op, whose results are those of MPI_Reduce_local, and compare_and_swap.
 *
 * Each rank in turn updates the part of the next one. Types that the MPI does not have are left out.
 */
#include "check.h"
#include <complex.h>

enum { ELEMENTS = 5, LARGEST = 64, BYTES = ELEMENTS * LARGEST };

/* i: integers of C and of several languages, n: integers of Fortran, l: truth values, f: floats, c: complex numbers, b: bytes,
   p: pairs, -: types that are only moved. */
static struct kind {
    const char *name;
    MPI_Datatype type;
    char class;
    /* How a value is written: f float, d double, x long double, otherwise an integer of the size; for pairs that of the first part. */
    char value;
} kinds[] = {
#define KIND(type, class, value) { #type, type, class, value }
    KIND(MPI_SIGNED_CHAR, 'i', 'i'), KIND(MPI_UNSIGNED_CHAR, 'i', 'i'), KIND(MPI_SHORT, 'i', 'i'), KIND(MPI_UNSIGNED_SHORT, 'i', 'i'),
    KIND(MPI_INT, 'i', 'i'), KIND(MPI_UNSIGNED, 'i', 'i'), KIND(MPI_LONG, 'i', 'i'), KIND(MPI_UNSIGNED_LONG, 'i', 'i'),
    KIND(MPI_LONG_LONG, 'i', 'i'), KIND(MPI_UNSIGNED_LONG_LONG, 'i', 'i'), KIND(MPI_INT8_T, 'i', 'i'), KIND(MPI_INT16_T, 'i', 'i'),
    KIND(MPI_INT32_T, 'i', 'i'), KIND(MPI_INT64_T, 'i', 'i'), KIND(MPI_UINT8_T, 'i', 'i'), KIND(MPI_UINT16_T, 'i', 'i'),
    KIND(MPI_UINT32_T, 'i', 'i'), KIND(MPI_UINT64_T, 'i', 'i'), KIND(MPI_AINT, 'i', 'i'), KIND(MPI_OFFSET, 'i', 'i'),
    KIND(MPI_COUNT, 'i', 'i'), KIND(MPI_FLOAT, 'f', 'f'), KIND(MPI_DOUBLE, 'f', 'd'), KIND(MPI_LONG_DOUBLE, 'f', 'x'),
    KIND(MPI_C_BOOL, 'l', 'l'), KIND(MPI_CXX_BOOL, 'l', 'l'), KIND(MPI_C_FLOAT_COMPLEX, 'c', 'f'), KIND(MPI_C_DOUBLE_COMPLEX, 'c', 'd'),
    KIND(MPI_C_LONG_DOUBLE_COMPLEX, 'c', 'x'), KIND(MPI_CXX_FLOAT_COMPLEX, 'c', 'f'), KIND(MPI_CXX_DOUBLE_COMPLEX, 'c', 'd'),
    KIND(MPI_CXX_LONG_DOUBLE_COMPLEX, 'c', 'x'), KIND(MPI_BYTE, 'b', 'i'), KIND(MPI_CHAR, '-', 'i'), KIND(MPI_WCHAR, '-', 'i'),
    KIND(MPI_PACKED, '-', 'i'), KIND(MPI_FLOAT_INT, 'p', 'f'), KIND(MPI_DOUBLE_INT, 'p', 'd'), KIND(MPI_LONG_INT, 'p', 'L'),
    KIND(MPI_2INT, 'p', 'i'), KIND(MPI_SHORT_INT, 'p', 's'), KIND(MPI_LONG_DOUBLE_INT, 'p', 'x'),
    KIND(MPI_INTEGER, 'n', 'i'), KIND(MPI_REAL, 'f', 'f'), KIND(MPI_DOUBLE_PRECISION, 'f', 'd'), KIND(MPI_COMPLEX, 'c', 'f'),
    KIND(MPI_LOGICAL, 'l', 'l'), KIND(MPI_CHARACTER, '-', 'i'), KIND(MPI_DOUBLE_COMPLEX, 'c', 'd'), KIND(MPI_INTEGER1, 'n', 'i'),
    KIND(MPI_INTEGER2, 'n', 'i'), KIND(MPI_INTEGER4, 'n', 'i'), KIND(MPI_INTEGER8, 'n', 'i'), KIND(MPI_REAL4, 'f', 'f'),
    KIND(MPI_REAL8, 'f', 'd'), KIND(MPI_COMPLEX8, 'c', 'f'), KIND(MPI_COMPLEX16, 'c', 'd'), KIND(MPI_2INTEGER, 'p', 'i'),
    KIND(MPI_2REAL, 'p', 'F'), KIND(MPI_2DOUBLE_PRECISION, 'p', 'D'),
};

static struct operation {
    const char *name;
    MPI_Op op;
    const char *classes;
} operations[] = {
    { "sum", MPI_SUM, "infc" }, { "prod", MPI_PROD, "infc" }, { "min", MPI_MIN, "inf" }, { "max", MPI_MAX, "inf" },
    { "land", MPI_LAND, "il" }, { "lor", MPI_LOR, "il" }, { "lxor", MPI_LXOR, "il" }, { "band", MPI_BAND, "inb" },
    { "bor", MPI_BOR, "inb" }, { "bxor", MPI_BXOR, "inb" }, { "minloc", MPI_MINLOC, "p" }, { "maxloc", MPI_MAXLOC, "p" },
    { "replace", MPI_REPLACE, "inlfcbp-" }, { "no_op", MPI_NO_OP, "inlfcbp-" },
};

static MPI_Win win;
static unsigned char *memory;

/* Writes small values, so that no operation overflows or rounds. */
static void fill(const struct kind *kind, unsigned char *at, int bytes, int value)
{
    memset(at, 0, LARGEST);
    int truth = value % 2;
    int64_t integer = kind->class == 'l' ? truth : value;
    switch (kind->value) {
    case 'f':
        ((float *)at)[0] = (float)value;
        if (kind->class == 'c')
            ((float *)at)[1] = 2;
        if (kind->class == 'p')
            ((int *)at)[1] = value;
        break;
    case 'd':
        ((double *)at)[0] = value;
        if (kind->class == 'c')
            ((double *)at)[1] = 2;
        if (kind->class == 'p')
            ((int *)at)[2] = value;
        break;
    case 'x':
        ((long double *)at)[0] = value;
        if (kind->class == 'c')
            ((long double *)at)[1] = 2;
        if (kind->class == 'p')
            ((int *)at)[4] = value;
        break;
    case 'F':
        ((float *)at)[0] = ((float *)at)[1] = (float)value;
        break;
    case 'D':
        ((double *)at)[0] = ((double *)at)[1] = value;
        break;
    case 'L':
        ((long *)at)[0] = value;
        ((int *)at)[2] = value;
        break;
    case 's':
        ((short *)at)[0] = (short)value;
        ((int *)at)[1] = value;
        break;
    default:
        memcpy(at, &integer, (size_t)(bytes < 8 ? bytes : 8));
        if (kind->class == 'p')
            ((int *)at)[1] = value;
    }
}

static void same(const struct kind *kind, const char *what, const unsigned char *found, const unsigned char *expected)
{
    if (memcmp(found, expected, BYTES) == 0)
        return;
    int at = 0;
    while (found[at] == expected[at])
        at++;
    failures++;
    fprintf(stderr, "rank %d of %d: %s, %s: byte %d is %d, not %d\n", rank, size, kind->name, what, at, found[at], expected[at]);
}

/* Sets this rank's part to known elements. */
static void set(const unsigned char *elements)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    memcpy(memory, elements, BYTES);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Returns the next rank's part. */
static void look(unsigned char *found)
{
    MPI_Win_flush(after, win);
    MPI_Get(found, BYTES, MPI_BYTE, after, 0, BYTES, MPI_BYTE, win);
    MPI_Win_flush(after, win);
}

static void expect(const struct operation *how, MPI_Datatype type, const unsigned char *mine, unsigned char *there, int count,
    MPI_Aint extent)
{
    if (how->op == MPI_REPLACE)
        memcpy(there, mine, (size_t)(count * extent));
    else if (how->op != MPI_NO_OP)
        MPI_Reduce_local(mine, there, count, type, how->op);
}

static void try(const struct kind *kind, const struct operation *how)
{
    static unsigned char mine[BYTES] __attribute__((aligned(16))), start[BYTES] __attribute__((aligned(16)));
    static unsigned char expected[BYTES] __attribute__((aligned(16))), found[BYTES] __attribute__((aligned(16)));
    static unsigned char old[BYTES] __attribute__((aligned(16))), before_it[BYTES] __attribute__((aligned(16)));
    MPI_Aint lower, extent;
    int bytes;
    char what[64];
    MPI_Type_get_extent(kind->type, &lower, &extent);
    MPI_Type_size(kind->type, &bytes);
    memset(mine, 0, BYTES);
    memset(start, 0, BYTES);
    for (int i = 0; i < ELEMENTS; i++) {
        unsigned char element[LARGEST] __attribute__((aligned(16)));
        fill(kind, element, bytes, 2 + i % 2);
        memcpy(mine + i * extent, element, (size_t)extent);
        fill(kind, element, bytes, 3 - (i + 1) % 3);
        memcpy(start + i * extent, element, (size_t)extent);
    }
    for (int count = 1; count <= ELEMENTS; count += ELEMENTS - 1) {
        set(start);
        memcpy(expected, start, BYTES);
        MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win);
        if (how->op != MPI_NO_OP) {
            MPI_Accumulate(mine, count, kind->type, after, 0, count, kind->type, how->op, win);
            expect(how, kind->type, mine, expected, count, extent);
            look(found);
            snprintf(what, sizeof what, "%s of %d, accumulate", how->name, count);
            same(kind, what, found, expected);
        }
        memset(old, 0, BYTES);
        memset(before_it, 0, BYTES);
        memcpy(before_it, expected, (size_t)(count * extent));
        MPI_Get_accumulate(mine, count, kind->type, old, count, kind->type, after, 0, count, kind->type, how->op, win);
        expect(how, kind->type, mine, expected, count, extent);
        look(found);
        snprintf(what, sizeof what, "%s of %d, get_accumulate", how->name, count);
        same(kind, what, found, expected);
        same(kind, "the result of get_accumulate", old, before_it);
        if (count == 1) {
            memset(old, 0, BYTES);
            memset(before_it, 0, BYTES);
            memcpy(before_it, expected + 2 * extent, (size_t)extent);
            MPI_Fetch_and_op(mine, old, kind->type, after, 2 * extent, how->op, win);
            expect(how, kind->type, mine, expected + 2 * extent, 1, extent);
            look(found);
            snprintf(what, sizeof what, "%s, fetch_and_op", how->name);
            same(kind, what, found, expected);
            same(kind, "the result of fetch_and_op", old, before_it);
        }
        MPI_Win_unlock(after, win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Integers, truth values and bytes can be swapped. */
static void swap(const struct kind *kind)
{
    static unsigned char start[BYTES], expected[BYTES], found[BYTES], old[BYTES], before_it[BYTES], mine[LARGEST], wrong[LARGEST];
    MPI_Aint lower, extent;
    int bytes;
    MPI_Type_get_extent(kind->type, &lower, &extent);
    MPI_Type_size(kind->type, &bytes);
    memset(start, 0, BYTES);
    for (int i = 0; i < ELEMENTS; i++) {
        unsigned char element[LARGEST];
        fill(kind, element, bytes, 1);
        memcpy(start + i * extent, element, (size_t)extent);
    }
    fill(kind, mine, bytes, 2);
    fill(kind, wrong, bytes, 4);
    set(start);
    memcpy(expected, start, BYTES);
    memset(before_it, 0, BYTES);
    memcpy(before_it, start, (size_t)extent);
    MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win);
    memset(old, 0, BYTES);
    MPI_Compare_and_swap(mine, wrong, old, kind->type, after, extent, win);
    look(found);
    same(kind, "a swap that finds another value", found, expected);
    same(kind, "the result of such a swap", old, before_it);
    memset(old, 0, BYTES);
    MPI_Compare_and_swap(mine, start, old, kind->type, after, extent, win);
    memcpy(expected + extent, mine, (size_t)extent);
    look(found);
    same(kind, "a swap", found, expected);
    same(kind, "the result of a swap", old, before_it);
    MPI_Win_unlock(after, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    make_window(BYTES, 1, &memory, &win);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct kind *kind = &kinds[i];
        if (kind->type == MPI_DATATYPE_NULL)
            continue;
        for (size_t j = 0; j < sizeof operations / sizeof *operations; j++)
            if (strchr(operations[j].classes, kind->class) && !(argc > 1 && strstr(argv[1], kind->name)))
                try(kind, &operations[j]);
        if (strchr("inlb", kind->class))
            swap(kind);
        passed("operations", kind->name);
    }
    MPI_Win_free(&win);
    return end();
}
