//! Some of a world's ranks, as a world of their own.

use std::marker::PhantomData;

use crate::RemoteAtomics;

/// Some of a world's ranks, numbered from 0, as a world of their own.
#[derive(Debug)]
pub struct Subset<'a, A: RemoteAtomics + ?Sized> {
    parent: PhantomData<&'a A>,
}
