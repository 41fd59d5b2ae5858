//! Code for policies of any type.

use crate::{Global, RawRwLock, RecoverableRw, RobustGlobal, WindowLock};

/// Code for a policy of any type: see [`PolicyKind::visit`](crate::PolicyKind::visit).
pub trait PolicyVisitor {
    /// The result of a visit.
    type Out;

    /// Runs the code for the policy `W`.
    fn visit<W: WindowLock + 'static>(self) -> Self::Out;

    /// Runs the code for a policy that is one lock of type `L` for the whole window. The default visits the policy.
    fn visit_lock<L: RawRwLock + 'static>(self) -> Self::Out
    where
        Self: Sized,
    {
        self.visit::<Global<L>>()
    }

    /// Runs the code for a policy that is one lock which outlives ranks. The default visits the policy.
    fn visit_robust_lock<L: RecoverableRw + 'static>(self) -> Self::Out
    where
        Self: Sized,
    {
        self.visit::<RobustGlobal<L>>()
    }
}
