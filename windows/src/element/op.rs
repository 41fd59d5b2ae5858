//! The operations of accumulates.

use std::fmt::{Display, Formatter};

/// An operation of accumulates, which computes the target's new element from its old one and the origin's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Op {
    /// The sum (`MPI_SUM`); integers wrap.
    Sum,
    /// The product (`MPI_PROD`); integers wrap.
    Prod,
    /// The lesser value (`MPI_MIN`), or the number if the other is a NaN. Of equal values, or of two NaNs, the target's
    /// value.
    Min,
    /// The greater value (`MPI_MAX`), or the number if the other is a NaN. Of equal values, or of two NaNs, the
    /// target's value.
    Max,
    /// 1 if neither is 0, else 0 (`MPI_LAND`).
    LogicalAnd,
    /// 1 unless both are 0, else 0 (`MPI_LOR`).
    LogicalOr,
    /// 1 if exactly one of them is 0, else 0 (`MPI_LXOR`).
    LogicalXor,
    /// The bits that both have (`MPI_BAND`).
    BitAnd,
    /// The bits that either has (`MPI_BOR`).
    BitOr,
    /// The bits that exactly one of them has (`MPI_BXOR`).
    BitXor,
    /// The origin's element (`MPI_REPLACE`).
    Replace,
    /// The target's element (`MPI_NO_OP`).
    NoOp,
    /// The pair with the lesser value, or with the number if the other is a NaN (`MPI_MINLOC`). Of equal values, or of
    /// two NaNs, the pair with the lower index.
    MinLoc,
    /// The pair with the greater value, or with the number if the other is a NaN (`MPI_MAXLOC`). Of equal values, or of
    /// two NaNs, the pair with the lower index.
    MaxLoc,
}

impl Op {
    /// All operations; the operation at index i has [`code`](Self::code) i.
    pub const ALL: [Op; 14] = [
        Op::Sum,
        Op::Prod,
        Op::Min,
        Op::Max,
        Op::LogicalAnd,
        Op::LogicalOr,
        Op::LogicalXor,
        Op::BitAnd,
        Op::BitOr,
        Op::BitXor,
        Op::Replace,
        Op::NoOp,
        Op::MinLoc,
        Op::MaxLoc,
    ];

    /// Returns the operation's number in messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the operation with that [`code`](Self::code), if there is one.
    pub fn from_code(code: u8) -> Option<Op> {
        Op::ALL.get(usize::from(code)).copied()
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Op::Sum => "sum",
            Op::Prod => "prod",
            Op::Min => "min",
            Op::Max => "max",
            Op::LogicalAnd => "land",
            Op::LogicalOr => "lor",
            Op::LogicalXor => "lxor",
            Op::BitAnd => "band",
            Op::BitOr => "bor",
            Op::BitXor => "bxor",
            Op::Replace => "replace",
            Op::NoOp => "no_op",
            Op::MinLoc => "minloc",
            Op::MaxLoc => "maxloc",
        })
    }
}
