/*
 * Derived datatypes at random against an oracle: datatypes CASES [SEED [FIRST]]
 *
 * Each case has a signature and up to three types with it, one for each buffer. What put, get, accumulate and get_accumulate
 * have to do is done on copies by MPI_Pack, MPI_Unpack and MPI_Reduce_local, and whole buffers are compared, gaps included. Each
 * rank is the origin for the next rank's part.
 */
#include "check.h"
#include <complex.h>
#include <stdarg.h>

enum { REGION = 1 << 14, MOST = 96, DESCRIPTION = 1 << 14 };

static uint64_t state;

static unsigned random_below(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % n);
}

static char description[DESCRIPTION];
static int described;

static void describe(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (described < DESCRIPTION - 1)
        described += vsnprintf(description + described, (size_t)(DESCRIPTION - described), format, arguments);
    va_end(arguments);
}

/* A type whose entries lie apart from each other, and how much memory it touches. */
struct made {
    MPI_Datatype type;
    int named;
};

static MPI_Aint extent_of(MPI_Datatype type)
{
    MPI_Aint lower, extent;
    MPI_Type_get_extent(type, &lower, &extent);
    return extent;
}

static void done_with(struct made *part)
{
    if (!part->named)
        MPI_Type_free(&part->type);
}

/* A random divisor of n. */
static int divisor(int n)
{
    int found = 1, seen = 0;
    for (int d = 1; d <= n; d++)
        if (n % d == 0 && random_below((unsigned)++seen) == 0)
            found = d;
    return found;
}

/* Open MPI 4 packs single bytes whose stride is -1 forwards, so such a type has no oracle there. */
static MPI_Aint but_for_a_fault(MPI_Aint stride, MPI_Aint extent)
{
    return stride == -1 && extent == 1 ? -2 : stride;
}

/* Whether displacements in bytes may be odd, which updates do not get on every host. */
static int odd_bytes;

static MPI_Aint some_bytes(void)
{
    return odd_bytes && random_below(4) == 0 ? (MPI_Aint)random_below(40) : (MPI_Aint)random_below(4) * 16;
}

static void shuffle(int n, int *order)
{
    for (int i = 0; i < n; i++) {
        int j = (int)random_below((unsigned)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

static struct made of_kind(MPI_Datatype basic, int n, int depth);

/* Arrays of types that begin later than at 0 reach beyond their upper bound; here all that a type touches is within its bounds. */
static struct made within_bounds(struct made made)
{
    MPI_Aint lower, extent, first, len;
    MPI_Datatype inner = made.type;
    MPI_Type_get_extent(inner, &lower, &extent);
    MPI_Type_get_true_extent(inner, &first, &len);
    if (first >= lower && first + len <= lower + extent)
        return made;
    MPI_Type_create_resized(inner, lower, first - lower + len, &made.type);
    MPI_Type_free(&inner);
    return made;
}

/* Cuts n into parts that are not empty. Returns their number. */
static int cut(int n, int most, int *parts)
{
    int count = 0;
    while (n > 0 && count < most - 1) {
        parts[count] = 1 + (int)random_below((unsigned)n);
        n -= parts[count++];
    }
    if (n > 0)
        parts[count++] = n;
    return count;
}

static struct made indexed(MPI_Datatype basic, int n, int depth, int in_bytes)
{
    int inner = divisor(n), blocks = n / inner, lengths[8], places[8], order[8];
    MPI_Aint bytes[8], at = 0;
    struct made part = of_kind(basic, inner, depth - 1), made = { MPI_DATATYPE_NULL, 0 };
    int count = cut(blocks, 8, lengths);
    MPI_Aint extent = extent_of(part.type);
    shuffle(count, order);
    for (int i = 0; i < count; i++) {
        int block = order[i];
        if (in_bytes)
            at += some_bytes();
        else
            at += random_below(3);
        bytes[block] = at;
        places[block] = (int)at;
        at += lengths[block] * (in_bytes ? extent : 1);
    }
    if (in_bytes)
        MPI_Type_create_hindexed(count, lengths, bytes, part.type, &made.type);
    else
        MPI_Type_indexed(count, lengths, places, part.type, &made.type);
    done_with(&part);
    return made;
}

static struct made blocks_of_one_length(MPI_Datatype basic, int n, int depth, int in_bytes)
{
    int inner = divisor(n), blocks = n / inner, length = divisor(blocks), count = blocks / length;
    int *places = malloc(sizeof(int) * (size_t)count), *order = malloc(sizeof(int) * (size_t)count);
    MPI_Aint *bytes = malloc(sizeof(MPI_Aint) * (size_t)count), at = 0;
    struct made part = of_kind(basic, inner, depth - 1), made = { MPI_DATATYPE_NULL, 0 };
    shuffle(count, order);
    for (int i = 0; i < count; i++) {
        at += in_bytes ? some_bytes() : (MPI_Aint)random_below(3);
        bytes[order[i]] = at;
        places[order[i]] = (int)at;
        at += in_bytes ? length * extent_of(part.type) : length;
    }
    if (in_bytes)
        MPI_Type_create_hindexed_block(count, length, bytes, part.type, &made.type);
    else
        MPI_Type_create_indexed_block(count, length, places, part.type, &made.type);
    free(places);
    free(order);
    free(bytes);
    done_with(&part);
    return made;
}

static struct made part_of_array(MPI_Datatype basic, int n, int depth)
{
    int inner = divisor(n), left = n / inner, dims = 1 + (int)random_below(3), sizes[3], parts[3], starts[3];
    struct made part = of_kind(basic, inner, depth - 1), made = { MPI_DATATYPE_NULL, 0 };
    for (int i = 0; i < dims; i++) {
        parts[i] = i == dims - 1 ? left : divisor(left);
        left /= parts[i];
        int more = (int)random_below(3);
        starts[i] = more > 0 ? (int)random_below((unsigned)more + 1) : 0;
        sizes[i] = parts[i] + more;
    }
    int order = random_below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    MPI_Type_create_subarray(dims, sizes, parts, starts, order, part.type, &made.type);
    done_with(&part);
    return within_bounds(made);
}

static struct made distributed(MPI_Datatype basic, int n, int depth)
{
    int inner = divisor(n), left = n / inner, dims = 1 + (int)random_below(2), processes = 1;
    int sizes[2], how[2], arguments[2], grid[2];
    struct made part = of_kind(basic, inner, depth - 1), made = { MPI_DATATYPE_NULL, 0 };
    for (int i = 0; i < dims; i++) {
        int mine = i == dims - 1 ? left : divisor(left);
        left /= mine;
        grid[i] = 1 + (int)random_below(3);
        arguments[i] = MPI_DISTRIBUTE_DFLT_DARG;
        sizes[i] = mine * grid[i];
        switch (random_below(3)) {
        case 0:
            how[i] = MPI_DISTRIBUTE_BLOCK;
            break;
        case 1:
            how[i] = MPI_DISTRIBUTE_CYCLIC;
            arguments[i] = divisor(mine);
            break;
        default:
            how[i] = MPI_DISTRIBUTE_NONE;
            grid[i] = 1;
            sizes[i] = mine;
        }
        processes *= grid[i];
    }
    int order = random_below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    MPI_Type_create_darray(processes, (int)random_below((unsigned)processes), dims, sizes, how, arguments, grid, order, part.type,
        &made.type);
    done_with(&part);
    return within_bounds(made);
}

static struct made structure(MPI_Datatype basic, int n, int depth)
{
    int parts[4], lengths[4], order[4], count = cut(n, 4, parts);
    MPI_Datatype types[4];
    MPI_Aint bytes[4], at = 0, lower, extent;
    struct made made = { MPI_DATATYPE_NULL, 0 }, inner[4];
    for (int i = 0; i < count; i++) {
        lengths[i] = divisor(parts[i]);
        inner[i] = of_kind(basic, parts[i] / lengths[i], depth - 1);
        types[i] = inner[i].type;
    }
    shuffle(count, order);
    for (int i = 0; i < count; i++) {
        int block = order[i];
        MPI_Type_get_extent(types[block], &lower, &extent);
        at += some_bytes();
        bytes[block] = at - lower;
        at += lengths[block] * extent;
    }
    MPI_Type_create_struct(count, lengths, bytes, types, &made.type);
    for (int i = 0; i < count; i++)
        done_with(&inner[i]);
    return made;
}

/* A type of n elements of a basic type. */
static struct made of_kind(MPI_Datatype basic, int n, int depth)
{
    struct made made = { basic, 1 }, part;
    int inner, count, length, stride;
    MPI_Aint lower, extent;
    if (n == 1 && (depth <= 0 || random_below(2)))
        return made;
    if (depth <= 0) {
        made.named = 0;
        MPI_Type_contiguous(n, basic, &made.type);
        return made;
    }
    made.named = 0;
    switch (random_below(12)) {
    case 0:
        inner = divisor(n);
        describe("contiguous(%d, ", n / inner);
        part = of_kind(basic, inner, depth - 1);
        MPI_Type_contiguous(n / inner, part.type, &made.type);
        break;
    case 1:
    case 2:
        inner = divisor(n);
        length = divisor(n / inner);
        count = n / inner / length;
        part.type = MPI_DATATYPE_NULL;
        if (random_below(2)) {
            stride = length + (int)random_below(3);
            if (random_below(4) == 0)
                stride = -stride;
            describe("vector(%d, %d, %d, ", count, length, stride);
            part = of_kind(basic, inner, depth - 1);
            stride = (int)but_for_a_fault(stride, extent_of(part.type));
            MPI_Type_vector(count, length, stride, part.type, &made.type);
        } else {
            describe("hvector(%d, %d, ", count, length);
            part = of_kind(basic, inner, depth - 1);
            MPI_Aint bytes = length * extent_of(part.type) + some_bytes();
            if (random_below(4) == 0)
                bytes = -bytes;
            bytes = but_for_a_fault(bytes, 1);
            MPI_Type_create_hvector(count, length, bytes, part.type, &made.type);
            describe(": %ld", (long)bytes);
        }
        break;
    case 3:
    case 4:
        inner = (int)random_below(2);
        describe(inner ? "hindexed(" : "indexed(");
        made = indexed(basic, n, depth, inner);
        describe(") ");
        return made;
    case 5:
    case 6:
        inner = (int)random_below(2);
        describe(inner ? "hindexed_block(" : "indexed_block(");
        made = blocks_of_one_length(basic, n, depth, inner);
        describe(") ");
        return made;
    case 7:
        describe("subarray(");
        made = part_of_array(basic, n, depth);
        describe(") ");
        return made;
    case 8:
        describe("darray(");
        made = distributed(basic, n, depth);
        describe(") ");
        return made;
    case 9:
        describe("struct(");
        made = structure(basic, n, depth);
        describe(") ");
        return made;
    case 10:
        describe("dup(");
        part = of_kind(basic, n, depth - 1);
        MPI_Type_dup(part.type, &made.type);
        break;
    default:
        describe("resized(");
        part = of_kind(basic, n, depth - 1);
        MPI_Type_get_extent(part.type, &lower, &extent);
        MPI_Aint earlier = some_bytes(), more = some_bytes();
        MPI_Type_create_resized(part.type, lower - earlier, extent + earlier + more, &made.type);
    }
    describe(") ");
    done_with(&part);
    return made;
}

/* Kinds and numbers of elements, in the order of a message. */
struct signature {
    int runs, counts[3];
    MPI_Datatype kinds[3];
};

/* Some items with a signature, in a buffer of this rank. */
struct items {
    MPI_Datatype type;
    int count;
    /* From the buffer's start to where the items' displacements count from. */
    MPI_Aint offset;
};

static char packed[REGION];

/* Packs items of a buffer. Returns the bytes. */
static int pack(const unsigned char *from, const struct items *items, char *into)
{
    int at = 0;
    MPI_Pack(from + items->offset, items->count, items->type, into, REGION, &at, MPI_COMM_SELF);
    return at;
}

static void unpack(const char *from, int len, unsigned char *into, const struct items *items)
{
    int at = 0;
    MPI_Unpack(from, len, &at, into + items->offset, items->count, items->type, MPI_COMM_SELF);
}

/* Whether the MPI packs what it has unpacked: some do not for some types, and then there is no oracle. */
static int is_packed_well(const struct items *items)
{
    static unsigned char at[REGION];
    static char sent[REGION];
    int size_of_one;
    MPI_Type_size(items->type, &size_of_one);
    int len = size_of_one * items->count;
    for (int i = 0; i < len; i++)
        sent[i] = (char)random_below(256);
    unpack(sent, len, at, items);
    memset(packed, 0, REGION);
    return pack(at, items, packed) == len && memcmp(sent, packed, (size_t)len) == 0;
}

/* Items of a signature: of one type, or several of it if the signature repeats one kind. They fit into a region. */
static struct items items_of(const struct signature *signature, int update)
{
    for (;;) {
        struct items items = { MPI_DATATYPE_NULL, 1, 0 };
        odd_bytes = !update;
        if (signature->runs == 1) {
            items.count = divisor(signature->counts[0]);
            describe("%d of ", items.count);
            struct made made = of_kind(signature->kinds[0], signature->counts[0] / items.count, 3);
            if (made.named)
                MPI_Type_dup(made.type, &items.type);
            else
                items.type = made.type;
        } else {
            int lengths[3], order[3];
            MPI_Aint bytes[3], at = 0, lower, extent;
            MPI_Datatype types[3];
            struct made parts[3];
            describe("a struct of ");
            for (int i = 0; i < signature->runs; i++) {
                lengths[i] = divisor(signature->counts[i]);
                parts[i] = of_kind(signature->kinds[i], signature->counts[i] / lengths[i], 2);
                types[i] = parts[i].type;
            }
            shuffle(signature->runs, order);
            for (int i = 0; i < signature->runs; i++) {
                int block = order[i];
                MPI_Type_get_extent(types[block], &lower, &extent);
                at += some_bytes();
                bytes[block] = at - lower;
                at += lengths[block] * extent;
            }
            MPI_Type_create_struct(signature->runs, lengths, bytes, types, &items.type);
            for (int i = 0; i < signature->runs; i++)
                done_with(&parts[i]);
        }
        MPI_Type_commit(&items.type);
        MPI_Aint first, len, lower, extent;
        MPI_Type_get_true_extent(items.type, &first, &len);
        MPI_Type_get_extent(items.type, &lower, &extent);
        MPI_Aint low = first + (extent < 0 ? (items.count - 1) * extent : 0);
        MPI_Aint bytes = len + (items.count - 1) * (extent < 0 ? -extent : extent);
        if (bytes <= REGION / 2) {
            /* Somewhere in the buffer, and for updates where the elements are aligned. */
            items.offset = (MPI_Aint)random_below(REGION / 2 / 16) * 16 - low;
            if (update)
                items.offset += low & 15;
            /* A displacement in a window is not negative. */
            if (items.offset >= 0 && items.offset + low + bytes <= REGION && is_packed_well(&items))
                return items;
        }
        MPI_Type_free(&items.type);
        describe("(refused) ");
    }
}

static unsigned char *buffer(void)
{
    unsigned char *made = aligned_alloc(64, REGION);
    for (int i = 0; i < REGION; i++)
        made[i] = (unsigned char)random_below(256);
    return made;
}

static unsigned char *copy_of(const unsigned char *other)
{
    unsigned char *made = aligned_alloc(64, REGION);
    memcpy(made, other, REGION);
    return made;
}

struct kind {
    MPI_Datatype type;
    int size;
    char class;
};

/* Without long double, whose bytes are not all of its value, and hosts move some of them or not. */
static struct kind kinds[] = { { MPI_INT8_T, 1, 'i' }, { MPI_UINT8_T, 1, 'i' }, { MPI_SHORT, 2, 'i' }, { MPI_INT, 4, 'i' },
    { MPI_UNSIGNED, 4, 'i' }, { MPI_INT64_T, 8, 'i' }, { MPI_UINT64_T, 8, 'i' }, { MPI_FLOAT, 4, 'f' }, { MPI_DOUBLE, 8, 'd' },
    { MPI_C_FLOAT_COMPLEX, 8, 'F' }, { MPI_C_DOUBLE_COMPLEX, 16, 'D' }, { MPI_BYTE, 1, 'b' },
    { MPI_CHAR, 1, 'n' }, { MPI_2INT, 8, 'p' }, { MPI_FLOAT_INT, 8, 'q' }, { MPI_DOUBLE_INT, 16, 'q' },
    { MPI_SHORT_INT, 8, 'q' }, { MPI_LONG_INT, 16, 'q' } };
enum { KINDS = sizeof kinds / sizeof *kinds, PAIRS = 5 };

/* Small values of a kind, one after the other, so that no update overflows or rounds. */
static int values(const struct kind *kind, int count, unsigned char *into)
{
    memset(into, 0, (size_t)count * (size_t)kind->size);
    for (int i = 0; i < count; i++) {
        unsigned char *at = into + i * kind->size;
        int value = 1 + (int)random_below(5);
        switch (kind->class) {
        case 'f':
            *(float *)at = (float)value;
            break;
        case 'd':
            *(double *)at = value;
            break;
        case 'F':
            ((float *)at)[0] = (float)value;
            ((float *)at)[1] = (float)random_below(5);
            break;
        case 'D':
            ((double *)at)[0] = value;
            ((double *)at)[1] = random_below(5);
            break;
        default:
            *at = (unsigned char)value;
        }
    }
    return count * kind->size;
}

static MPI_Op operation_of(const struct kind *kind)
{
    MPI_Op any[] = { MPI_SUM, MPI_REPLACE, MPI_MAX, MPI_MIN, MPI_PROD, MPI_BXOR, MPI_BAND, MPI_BOR, MPI_LAND, MPI_LOR, MPI_LXOR };
    MPI_Op bits[] = { MPI_REPLACE, MPI_BXOR, MPI_BAND, MPI_BOR };
    switch (kind->class) {
    case 'i':
        return any[random_below(11)];
    case 'f':
    case 'd':
        return any[random_below(5)];
    case 'F':
    case 'D':
        return any[random_below(2)];
    default:
        return bits[random_below(4)];
    }
}

static MPI_Win win;
static unsigned char *memory;

/* Sets this rank's part, the same at all ranks. */
static void set(const unsigned char *bytes)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    memcpy(memory, bytes, REGION);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int compare(const char *what, int number, const unsigned char *found, const unsigned char *expected)
{
    for (int i = 0; i < REGION; i++)
        if (found[i] != expected[i]) {
            if (++failures > 5)
                return 0;
            fprintf(stderr, "rank %d of %d, case %d: %s: byte %d is %d, not %d: %s\n", rank, size, number, what, i, found[i],
                expected[i], description);
            return 0;
        }
    return 1;
}

static void wait_if(int requested, MPI_Request *request)
{
    if (requested)
        MPI_Wait(request, MPI_STATUS_IGNORE);
}

/* Puts or gets items of different layouts. */
static void transfers(int number)
{
    struct signature signature = { 1 + (int)(random_below(3) == 0 ? random_below(3) : 0), { 0 }, { MPI_DATATYPE_NULL } };
    for (int i = 0; i < signature.runs; i++) {
        signature.kinds[i] = kinds[random_below(KINDS)].type;
        signature.counts[i] = 1 + (int)random_below(signature.runs == 1 ? MOST : 12);
    }
    described = 0;
    describe("origin ");
    struct items here = items_of(&signature, 0);
    describe("target ");
    struct items there = items_of(&signature, 0);
    unsigned char *mine = buffer(), *part = buffer(), *expected, *found = buffer();
    int requested = (int)random_below(2), len;
    MPI_Request request;
    MPI_Aint address;
    /* The origin's items by their address, from the bottom of memory. */
    struct items by_address = here;
    int one = 1, absolute = random_below(4) == 0;
    const unsigned char *base = mine + here.offset;
    if (absolute) {
        MPI_Datatype bottom, whole;
        MPI_Get_address(mine + here.offset, &address);
        MPI_Type_contiguous(here.count, here.type, &whole);
        MPI_Type_create_hindexed(1, &one, &address, whole, &bottom);
        MPI_Type_commit(&bottom);
        MPI_Type_free(&whole);
        by_address.type = bottom;
        by_address.count = 1;
        base = MPI_BOTTOM;
    }
    set(part);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
    if (random_below(2)) {
        expected = copy_of(part);
        len = pack(mine, &here, packed);
        unpack(packed, len, expected, &there);
        if (requested)
            MPI_Rput(base, by_address.count, by_address.type, after, there.offset, there.count, there.type, win, &request);
        else
            MPI_Put(base, by_address.count, by_address.type, after, there.offset, there.count, there.type, win);
        wait_if(requested, &request);
        MPI_Win_flush(after, win);
        MPI_Get(found, REGION, MPI_BYTE, after, 0, REGION, MPI_BYTE, win);
        MPI_Win_unlock(after, win);
        compare("put", number, found, expected);
    } else {
        expected = copy_of(mine);
        len = pack(part, &there, packed);
        unpack(packed, len, expected, &here);
        if (requested)
            MPI_Rget((void *)base, by_address.count, by_address.type, after, there.offset, there.count, there.type, win, &request);
        else
            MPI_Get((void *)base, by_address.count, by_address.type, after, there.offset, there.count, there.type, win);
        wait_if(requested, &request);
        MPI_Win_unlock(after, win);
        compare("get", number, mine, expected);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (absolute)
        MPI_Type_free(&by_address.type);
    MPI_Type_free(&here.type);
    MPI_Type_free(&there.type);
    free(mine);
    free(part);
    free(expected);
    free(found);
}

/* Accumulates items of different layouts, and fetches the old content into a third layout. */
static void updates(int number)
{
    const struct kind *kind = &kinds[random_below(KINDS - PAIRS - 1)];
    struct signature signature = { 1, { 1 + (int)random_below(MOST) }, { kind->type } };
    int count = signature.counts[0], fetched = (int)random_below(2), requested = (int)random_below(2), len;
    MPI_Op op = operation_of(kind);
    if (fetched && random_below(6) == 0)
        op = MPI_NO_OP;
    described = 0;
    describe("%d elements of kind %d, operation %d: origin ", count, (int)(kind - kinds), (int)(op == MPI_REPLACE));
    struct items here = items_of(&signature, 1);
    describe("target ");
    struct items there = items_of(&signature, 1);
    describe("result ");
    struct items result = items_of(&signature, 1);
    unsigned char *mine = buffer(), *part = buffer(), *before_it = buffer(), *found = buffer();
    MPI_Request request;
    static unsigned char some[REGION] __attribute__((aligned(64))), more[REGION] __attribute__((aligned(64)));
    /* Values where the elements are. The elements' own bytes are in the order of the message. */
    len = values(kind, count, some);
    unpack((char *)some, len, mine, &here);
    values(kind, count, more);
    unpack((char *)more, len, part, &there);
    set(part);
    unsigned char *expected = copy_of(part), *expected_result = copy_of(before_it);
    if (fetched)
        unpack((char *)more, len, expected_result, &result);
    if (op == MPI_REPLACE)
        memcpy(more, some, (size_t)len);
    else if (op != MPI_NO_OP)
        MPI_Reduce_local(some, more, count, kind->type, op);
    unpack((char *)more, len, expected, &there);
    MPI_Win_lock(MPI_LOCK_SHARED, after, 0, win);
    if (!fetched && requested)
        MPI_Raccumulate(mine + here.offset, here.count, here.type, after, there.offset, there.count, there.type, op, win, &request);
    else if (!fetched)
        MPI_Accumulate(mine + here.offset, here.count, here.type, after, there.offset, there.count, there.type, op, win);
    else if (requested)
        MPI_Rget_accumulate(mine + here.offset, here.count, here.type, before_it + result.offset, result.count, result.type, after,
            there.offset, there.count, there.type, op, win, &request);
    else
        MPI_Get_accumulate(mine + here.offset, here.count, here.type, before_it + result.offset, result.count, result.type, after,
            there.offset, there.count, there.type, op, win);
    wait_if(requested, &request);
    MPI_Win_flush(after, win);
    MPI_Get(found, REGION, MPI_BYTE, after, 0, REGION, MPI_BYTE, win);
    MPI_Win_unlock(after, win);
    compare("an update's target", number, found, expected);
    compare("an update's result", number, before_it, expected_result);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&here.type);
    MPI_Type_free(&there.type);
    MPI_Type_free(&result.type);
    free(mine);
    free(part);
    free(before_it);
    free(found);
    free(expected);
    free(expected_result);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int cases = argc > 1 ? atoi(argv[1]) : 200, first = argc > 3 ? atoi(argv[3]) : 0;
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    alarm(3600);
    make_window(REGION, 1, &memory, &win);
    for (int i = first; i < first + cases; i++) {
        /* The same at all ranks, and the same for a case whatever the cases before it. */
        state = seed * 1000003u + (unsigned)i * 7919u + 17u;
        random_below(2);
        if (random_below(5) < 3)
            transfers(i);
        else
            updates(i);
    }
    MPI_Win_free(&win);
    passed("datatypes", "at random");
    return end();
}
