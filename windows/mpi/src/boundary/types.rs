//! The host's types and operations, and the engine's types and operations for them.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use mpi_sys as ffi;
use rmalab_windows::layout::Order;
use rmalab_windows::{ElementKind, Error, Layout, LayoutError, Op};

use super::native::Items;
use crate::policy::{Failure, Result};

#[repr(C)]
struct Predefined {
    handle: ffi::MPI_Datatype,
    class: c_char,
}

unsafe extern "C" {
    #[link_name = "rmalab_mpi_types"]
    static TYPES: [Predefined; 0];
    #[link_name = "rmalab_mpi_types_count"]
    static TYPES_COUNT: c_int;
    #[link_name = "rmalab_mpi_ops"]
    static OPS: [ffi::MPI_Op; Op::ALL.len()];
    #[link_name = "rmalab_mpi_combiners"]
    static COMBINERS: [c_int; Combiner::ALL.len()];
    #[link_name = "rmalab_mpi_order_fortran"]
    static ORDER_FORTRAN: c_int;
    #[link_name = "rmalab_mpi_distribute_none"]
    static DISTRIBUTE_NONE: c_int;
    #[link_name = "rmalab_mpi_distribute_cyclic"]
    static DISTRIBUTE_CYCLIC: c_int;
    #[link_name = "rmalab_mpi_distribute_default"]
    static DISTRIBUTE_DEFAULT: c_int;
}

/// A type whose elements follow each other without gaps.
#[derive(Clone, Copy)]
pub(crate) struct Dense {
    /// Bytes of an element.
    pub(crate) size: u64,
    /// The engine's type, if it has one.
    pub(crate) kind: Option<ElementKind>,
}

/// The number of places in the table, a power of two, several times as many as types.
const PLACES: usize = 256;

/// The dense predefined types by their handles, a hash table without deletion. Predefined handles are never freed, so no entry goes
/// out of date. Other types may be freed, and their handles used again.
pub(crate) struct Types {
    places: [Option<(usize, Dense)>; PLACES],
}

/// Returns the handle as a number.
#[inline(always)]
fn number(handle: ffi::MPI_Datatype) -> usize {
    handle.0 as usize
}

#[inline(always)]
fn place(number: usize) -> usize {
    // The high bits of the product depend on all bits of the handle.
    (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (64 - PLACES.trailing_zeros())
}

impl Types {
    /// Returns the table.
    pub(crate) fn all() -> &'static Types {
        static ALL: OnceLock<Box<Types>> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut types = Types { places: [None; PLACES] };
            // SAFETY: the C file has that many types, and MPI is initialized while there are windows.
            let predefined =
                unsafe { std::slice::from_raw_parts((&raw const TYPES).cast::<Predefined>(), TYPES_COUNT as usize) };
            for &Predefined { handle, class } in predefined {
                // SAFETY: a constant of C.
                if handle == unsafe { ffi::RSMPI_DATATYPE_NULL } {
                    continue;
                }
                let (mut size, mut lower, mut extent) = (0, 0, 0);
                // SAFETY: the calls write to live variables.
                unsafe {
                    ffi::PMPI_Type_size(handle, &mut size);
                    ffi::PMPI_Type_get_extent(handle, &mut lower, &mut extent);
                }
                if size > 0 && lower == 0 && super::host::wide(extent) == i64::from(size) {
                    let dense = Dense { size: size as u64, kind: kind(class as u8, size) };
                    let mut at = place(number(handle));
                    while types.places[at].is_some_and(|(other, _)| other != number(handle)) {
                        at = (at + 1) % PLACES;
                    }
                    types.places[at] = Some((number(handle), dense));
                }
            }
            Box::new(types)
        })
    }

    /// Returns some dense type, with its handle.
    pub(crate) fn bytes(&self) -> (ffi::MPI_Datatype, Dense) {
        // SAFETY: a constant of C.
        (unsafe { ffi::RSMPI_UINT8_T }, Dense { size: 1, kind: Some(ElementKind::U8) })
    }

    /// Returns a predefined type that has no gaps.
    #[inline(always)]
    pub(crate) fn dense(&self, handle: ffi::MPI_Datatype) -> Option<Dense> {
        let mut at = place(number(handle));
        loop {
            match self.places[at] {
                Some((other, dense)) if other == number(handle) => return Some(dense),
                Some(_) => at = (at + 1) % PLACES,
                None => return None,
            }
        }
    }
}

/// Returns the engine's type of this class (see predefined.c) and size.
fn kind(class: u8, size: c_int) -> Option<ElementKind> {
    Some(match (class, size) {
        (b'i', 1) => ElementKind::I8,
        (b'i', 2) => ElementKind::I16,
        (b'i', 4) => ElementKind::I32,
        (b'i', 8) => ElementKind::I64,
        (b'u', 1) => ElementKind::U8,
        (b'u', 2) => ElementKind::U16,
        (b'u', 4) => ElementKind::U32,
        (b'u', 8) => ElementKind::U64,
        (b'f', 4) => ElementKind::F32,
        (b'f', 8) => ElementKind::F64,
        (b'c', 8) => ElementKind::ComplexF32,
        (b'c', 16) => ElementKind::ComplexF64,
        (b'l', 1) => ElementKind::Logical,
        (b'b', 1) => ElementKind::Byte,
        (b'p', 8) => ElementKind::PairI32,
        (b'q', 8) => ElementKind::PairF32I32,
        _ => return None,
    })
}

/// Returns a predefined operation.
#[inline(always)]
pub(crate) fn op(handle: ffi::MPI_Op) -> Option<Op> {
    // SAFETY: a constant of C.
    unsafe { OPS }.iter().position(|&other| other == handle).map(|at| Op::ALL[at])
}

/// Returns the handle of an operation.
#[inline(always)]
pub(crate) fn handle(op: Op) -> ffi::MPI_Op {
    // SAFETY: a constant of C.
    unsafe { OPS[usize::from(op.code())] }
}

/// The way in which the program has made a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Combiner {
    Named,
    Dup,
    Contiguous,
    Vector,
    HVector,
    Indexed,
    HIndexed,
    IndexedBlock,
    HIndexedBlock,
    Struct,
    Subarray,
    Darray,
    Resized,
}

impl Combiner {
    const ALL: [Combiner; 13] = [
        Combiner::Named,
        Combiner::Dup,
        Combiner::Contiguous,
        Combiner::Vector,
        Combiner::HVector,
        Combiner::Indexed,
        Combiner::HIndexed,
        Combiner::IndexedBlock,
        Combiner::HIndexedBlock,
        Combiner::Struct,
        Combiner::Subarray,
        Combiner::Darray,
        Combiner::Resized,
    ];
}

/// The contents of a type (`MPI_Type_get_contents`).
struct Contents {
    /// `None` for constructors that only Fortran has.
    combiner: Option<Combiner>,
    numbers: Vec<c_int>,
    places: Vec<ffi::MPI_Aint>,
    parts: Vec<ffi::MPI_Datatype>,
}

impl Contents {
    /// Returns the contents, or `None` if the host does not return them.
    fn of(of: ffi::MPI_Datatype) -> Option<Contents> {
        let (mut integers, mut addresses, mut types, mut combiner) = (0, 0, 0, 0);
        // SAFETY: the calls write to live variables, up to the lengths in the envelope. The array is C's.
        unsafe {
            if ffi::PMPI_Type_get_envelope(of, &mut integers, &mut addresses, &mut types, &mut combiner)
                != super::host::SUCCESS
            {
                return None;
            }
            let combiner = COMBINERS.iter().position(|&other| other == combiner).map(|at| Combiner::ALL[at]);
            let mut contents = Contents {
                combiner,
                numbers: vec![0; integers as usize],
                places: vec![0; addresses as usize],
                parts: vec![ffi::RSMPI_DATATYPE_NULL; types as usize],
            };
            if combiner == Some(Combiner::Named) {
                return Some(contents);
            }
            let Contents { numbers, places, parts, .. } = &mut contents;
            let (n, a, t) = (numbers.as_mut_ptr(), places.as_mut_ptr(), parts.as_mut_ptr());
            let code = ffi::PMPI_Type_get_contents(of, integers, addresses, types, n, a, t);
            if code != super::host::SUCCESS {
                contents.parts.clear();
                return None;
            }
            Some(contents)
        }
    }

    fn number(&self, at: usize) -> i64 {
        self.numbers[at].into()
    }

    /// Returns a number that is not negative.
    fn count(&self, at: usize) -> u64 {
        self.numbers[at] as u64
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        // This function has to free the parts of a type, except predefined types.
        for part in &mut self.parts {
            let (mut i, mut a, mut t, mut combiner) = (0, 0, 0, 0);
            // SAFETY: the host has given the part; the calls write to live variables.
            unsafe {
                ffi::PMPI_Type_get_envelope(*part, &mut i, &mut a, &mut t, &mut combiner);
                if combiner != COMBINERS[0] {
                    ffi::PMPI_Type_free(part);
                }
            }
        }
    }
}

/// Returns the predefined type that all elements of a type have; `None` if there is none, or if they differ.
pub(crate) fn element(of: ffi::MPI_Datatype) -> Option<ffi::MPI_Datatype> {
    let contents = Contents::of(of)?;
    if contents.combiner == Some(Combiner::Named) {
        return Some(of);
    }
    let mut found = Err(());
    for &part in &contents.parts {
        let mut size = 0;
        // SAFETY: the call writes to a live variable.
        unsafe { ffi::PMPI_Type_size(part, &mut size) };
        if size > 0 {
            let element = element(part);
            found = match found {
                Err(()) => Ok(element),
                Ok(found) if found == element => Ok(found),
                Ok(_) => Ok(None),
            };
        }
    }
    found.ok().flatten()
}

/// Returns the bytes of an item of a type, in their order, and the type's bounds from the host.
pub(crate) fn layout(of: ffi::MPI_Datatype) -> Result<Layout> {
    let described = match Contents::of(of) {
        Some(contents) => described(of, &contents)?,
        None => None,
    };
    let layout = match described {
        Some(layout) => layout,
        None => by_marks(of)?,
    };
    let (lower, extent) = super::host::bounds(of)?;
    Ok(layout.resized(lower, extent).map_err(Error::from)?)
}

/// Returns the layout that follows from a type's contents, up to its bounds, if this library knows the constructor.
fn described(of: ffi::MPI_Datatype, contents: &Contents) -> Result<Option<Layout>> {
    let Some(combiner) = contents.combiner else { return Ok(None) };
    let inner =
        || contents.parts.first().map_or_else(|| Layout::contiguous(0, &byte()).map_err(failed), |&part| layout(part));
    let blocks = |count: usize, disps: &mut dyn Iterator<Item = i64>| -> Vec<(u64, i64)> {
        (0..count).map(|at| contents.count(1 + at)).zip(disps).collect()
    };
    let places = || contents.places.iter().map(|&place| super::host::wide(place));
    let n = contents.numbers.first().map_or(0, |&n| n as usize);
    Ok(Some(
        match combiner {
            Combiner::Named => match Types::all().dense(of) {
                Some(dense) => Layout::contiguous(dense.size, &byte()),
                None => return Ok(None),
            },
            Combiner::Dup | Combiner::Resized => Ok(inner()?),
            Combiner::Contiguous => Layout::contiguous(contents.count(0), &inner()?),
            Combiner::Vector => Layout::vector(contents.count(0), contents.count(1), contents.number(2), &inner()?),
            Combiner::HVector => {
                Layout::hvector(contents.count(0), contents.count(1), super::host::wide(contents.places[0]), &inner()?)
            }
            Combiner::Indexed => {
                Layout::indexed(&blocks(n, &mut (0..n).map(|at| contents.number(1 + n + at))), &inner()?)
            }
            Combiner::HIndexed => Layout::hindexed(&blocks(n, &mut places()), &inner()?),
            Combiner::IndexedBlock => {
                let disps: Vec<i64> = (0..n).map(|at| contents.number(2 + at)).collect();
                Layout::indexed_block(contents.count(1), &disps, &inner()?)
            }
            Combiner::HIndexedBlock => {
                Layout::hindexed_block(contents.count(1), &places().collect::<Vec<_>>(), &inner()?)
            }
            Combiner::Struct => {
                let parts: Vec<Layout> = contents.parts.iter().map(|&part| layout(part)).collect::<Result<_>>()?;
                let blocks = blocks(n, &mut places());
                let all: Vec<_> = blocks.iter().zip(&parts).map(|(&(count, disp), part)| (count, disp, part)).collect();
                Layout::structure(&all)
            }
            Combiner::Subarray => {
                let list = |from: usize| -> Vec<u64> { (0..n).map(|at| contents.count(1 + from * n + at)).collect() };
                Layout::subarray(&list(0), &list(1), &list(2), order(contents.numbers[3 * n + 1]), &inner()?)
            }
            Combiner::Darray => return darray(contents, &inner()?).map(Some),
        }
        .map_err(failed)?,
    ))
}

/// One byte, of which all layouts here are made.
fn byte() -> Layout {
    Layout::of::<u8>()
}

fn failed(error: LayoutError) -> Failure {
    Error::from(error).into()
}

fn order(number: c_int) -> Order {
    // SAFETY: a constant of C.
    if number == unsafe { ORDER_FORTRAN } { Order::Fortran } else { Order::C }
}

/// Returns this process's part of an array that processes share (`MPI_Type_create_darray`).
fn darray(contents: &Contents, inner: &Layout) -> Result<Layout> {
    let dimensions = contents.numbers[2] as usize;
    let numbers = |nth: usize| &contents.numbers[3 + nth * dimensions..][..dimensions];
    let (sizes, distributions, arguments, processes) = (numbers(0), numbers(1), numbers(2), numbers(3));
    // The processes' grid is in C's order for both orders of the array.
    let mut rank = contents.number(1);
    let mut coordinates = vec![0_i64; dimensions];
    for (coordinate, &processes) in coordinates.iter_mut().zip(processes).rev() {
        let processes = i64::from(processes.max(1));
        (*coordinate, rank) = (rank % processes, rank / processes);
    }
    let (mut layout, mut step) = (inner.clone(), inner.extent());
    for nth in 0..dimensions {
        let at = match order(contents.numbers[3 + 4 * dimensions]) {
            Order::C => dimensions - 1 - nth,
            Order::Fortran => nth,
        };
        let (size, processes) = (i64::from(sizes[at]), i64::from(processes[at].max(1)));
        // SAFETY: constants of C.
        let (none, cyclic, unset) = unsafe { (DISTRIBUTE_NONE, DISTRIBUTE_CYCLIC, DISTRIBUTE_DEFAULT) };
        let argument = Some(i64::from(arguments[at])).filter(|_| arguments[at] != unset);
        let block = if distributions[at] == none {
            size
        } else if distributions[at] == cyclic {
            argument.unwrap_or(1)
        } else {
            argument.unwrap_or((size + processes - 1) / processes)
        };
        let block = block.max(1);
        let starts = (0..).map(|round| (round * processes + coordinates[at]) * block).take_while(|&start| start < size);
        let blocks: Vec<(u64, i64)> =
            starts.map(|start| (block.min(size - start) as u64, start.wrapping_mul(step))).collect();
        layout = Layout::hindexed(&blocks, &layout.resized(0, step).map_err(failed)?).map_err(failed)?;
        step = step.wrapping_mul(size);
    }
    Ok(layout)
}

/// Returns the layout of a type whose contents only the host knows. The host copies numbered bytes, whose places reveal the layout.
fn by_marks(of: ffi::MPI_Datatype) -> Result<Layout> {
    /// More bytes than any type without queryable contents has.
    const MOST: u64 = 64 << 20;
    let ((size, _), (first, len)) = (super::host::size_of(of)?, super::host::span(1, of)?);
    if len > MOST {
        return Err(Failure::Class(ffi::MPI_ERR_TYPE as c_int));
    }
    let mut offsets = vec![0_i64; size as usize];
    let (mut marks, mut copied) = (vec![0_u8; len as usize], vec![0_u8; size as usize]);
    for shift in (0..u64::BITS - len.leading_zeros()).step_by(8) {
        for (at, mark) in marks.iter_mut().enumerate() {
            *mark = (at >> shift) as u8;
        }
        let from = Items { at: marks.as_mut_ptr().wrapping_offset(-(first as isize)).cast(), count: 1, of };
        // SAFETY: the type's bytes are from `first` on, `len` of them; the host writes as many bytes as the type's size.
        unsafe { super::host::copy(from, super::host::packed(&mut copied))? };
        for (offset, &digit) in offsets.iter_mut().zip(&copied) {
            *offset |= i64::from(digit) << shift;
        }
    }
    let blocks: Vec<(u64, i64)> = offsets.into_iter().map(|offset| (1, first + offset)).collect();
    Layout::hindexed(&blocks, &byte()).map_err(failed)
}
