//! The host's predefined types and operations, and what they are to the engine.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use mpi_sys as ffi;
use rmalab_windows::{Kind, Op};

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
    #[link_name = "rmalab_mpi_combiner_named"]
    static COMBINER_NAMED: c_int;
}

/// A type whose elements follow each other without gaps.
#[derive(Clone, Copy)]
pub(crate) struct Dense {
    /// Bytes of an element.
    pub(crate) size: u64,
    /// The engine's type, if it has one.
    pub(crate) kind: Option<Kind>,
}

/// The number of places in the table, a power of two, several times as many as types.
const PLACES: usize = 256;

/// The dense predefined types by their handles, a hash table without deletion. Predefined handles are never freed, so nothing in it
/// goes out of date. Other types may be freed, and their handles used again.
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
        (unsafe { ffi::RSMPI_UINT8_T }, Dense { size: 1, kind: Some(Kind::U8) })
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
fn kind(class: u8, size: c_int) -> Option<Kind> {
    Some(match (class, size) {
        (b'i', 1) => Kind::I8,
        (b'i', 2) => Kind::I16,
        (b'i', 4) => Kind::I32,
        (b'i', 8) => Kind::I64,
        (b'u', 1) => Kind::U8,
        (b'u', 2) => Kind::U16,
        (b'u', 4) => Kind::U32,
        (b'u', 8) => Kind::U64,
        (b'f', 4) => Kind::F32,
        (b'f', 8) => Kind::F64,
        (b'c', 8) => Kind::ComplexF32,
        (b'c', 16) => Kind::ComplexF64,
        (b'l', 1) => Kind::Logical,
        (b'b', 1) => Kind::Byte,
        (b'p', 8) => Kind::PairI32,
        (b'q', 8) => Kind::PairF32I32,
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

/// Returns the predefined type that all elements of a type have; `None` if there is none, or if they differ.
pub(crate) fn element(of: ffi::MPI_Datatype) -> Option<ffi::MPI_Datatype> {
    let (mut integers, mut addresses, mut types, mut combiner) = (0, 0, 0, 0);
    // SAFETY: the calls write to live variables, and as much as the envelope says.
    unsafe {
        if ffi::PMPI_Type_get_envelope(of, &mut integers, &mut addresses, &mut types, &mut combiner)
            != super::host::SUCCESS
        {
            return None;
        }
        if combiner == COMBINER_NAMED {
            return Some(of);
        }
        let mut numbers = vec![0; integers as usize];
        let mut places = vec![0; addresses as usize];
        let mut parts = vec![ffi::RSMPI_DATATYPE_NULL; types as usize];
        let (n, a, t) = (numbers.as_mut_ptr(), places.as_mut_ptr(), parts.as_mut_ptr());
        if ffi::PMPI_Type_get_contents(of, integers, addresses, types, n, a, t) != super::host::SUCCESS {
            return None;
        }
        let mut found = Err(());
        for part in &mut parts {
            let mut size = 0;
            ffi::PMPI_Type_size(*part, &mut size);
            let element = element(*part);
            if size > 0 {
                found = match (found, element) {
                    (Err(()), element) => Ok(element),
                    (Ok(found), element) if found == element => Ok(found),
                    _ => Ok(None),
                };
            }
            // The parts of a type are ours to free, except for predefined ones.
            let mut named = 0;
            let (mut i, mut a, mut t) = (0, 0, 0);
            ffi::PMPI_Type_get_envelope(*part, &mut i, &mut a, &mut t, &mut named);
            if named != COMBINER_NAMED {
                ffi::PMPI_Type_free(part);
            }
        }
        found.ok().flatten()
    }
}
