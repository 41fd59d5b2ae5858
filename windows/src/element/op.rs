//! The operations of accumulates.

use std::fmt::{Display, Formatter};

/// An operation of accumulates: what becomes of the target's element, given the origin's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Op {
    /// Their sum (`MPI_SUM`); integers wrap.
    Sum,
    /// Their product (`MPI_PROD`); integers wrap.
    Prod,
    /// The lesser (`MPI_MIN`); the number if the other is a NaN; of equal ones, or of two NaNs, the target's.
    Min,
    /// The greater (`MPI_MAX`); the number if the other is a NaN; of equal ones, or of two NaNs, the target's.
    Max,
    /// 1 if neither is 0, else 0 (`MPI_LAND`).
    LogicalAnd,
    /// 1 unless both are 0, else 0 (`MPI_LOR`).
    LogicalOr,
    /// 1 if one of them is 0 and the other is not, else 0 (`MPI_LXOR`).
    LogicalXor,
    /// The bits that both have (`MPI_BAND`).
    BitAnd,
    /// The bits that either has (`MPI_BOR`).
    BitOr,
    /// The bits that one of them has (`MPI_BXOR`).
    BitXor,
    /// The origin's (`MPI_REPLACE`).
    Replace,
    /// The target's (`MPI_NO_OP`).
    NoOp,
    /// The pair with the lesser value, or with the number if the other is a NaN; of equal values, or of two NaNs, the one
    /// with the lower index (`MPI_MINLOC`).
    MinLoc,
    /// The pair with the greater value, or with the number if the other is a NaN; of equal values, or of two NaNs, the one
    /// with the lower index (`MPI_MAXLOC`).
    MaxLoc,
}

impl Op {
    /// All of them; the one at place i has [`code`](Self::code) i.
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

    /// A number for it, for messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The operation with that [`code`](Self::code), if there is one.
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
