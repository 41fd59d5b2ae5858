//! One fence for two sides: a rank that parks also fences for the ranks that put.
//!
//! The same two fences are the trait's `fence_light` and `fence_everywhere`, for protocols with a frequent and a rare
//! side.
//!
//! A put stores to a word and then looks whether the word's owner is parked. The owner sets its parked flag and then looks
//! at the word. If both looks came before both stores were visible, the wake-up would be lost. So both sides need a fence
//! between store and look. Puts are frequent, and a fence would cost more than the put. A rank that parks has spun and
//! yielded for many microseconds before. So the puts fence only the compiler (*light*), and the parking rank asks the
//! kernel to run a fence on every processor that runs a thread of the world (*heavy*): membarrier(2).
//!
//! # Why it is right
//!
//! The heavy fence acts as if every other thread had executed a full fence at some moment between the call and its
//! return. For a put that moment is before the look at `parked` or after it. Before: the look comes after the moment, and
//! so after the owner's store to `parked`, and sees it; the put wakes the owner. After: in program order the store comes
//! before the look and so before the moment, and the owner, which looks at the word after the call, sees it. For a thread
//! that does not run, the context switch that stopped it was the fence.
//!
//! The kernel fences only processes that have registered. A process that could not register fences at each put instead.
//! If the kernel refuses a rank's heavy fence (as a sandbox may do), that rank parks only for a short time.

use rustix::thread::{MembarrierCommand, membarrier};

/// Registers this process, so that heavy fences reach it. Returns whether its puts may be light. `private` is true if
/// all ranks are threads of this process.
pub(super) fn register(private: bool) -> bool {
    membarrier(if private {
        MembarrierCommand::RegisterPrivateExpedited
    } else {
        MembarrierCommand::RegisterGlobalExpedited
    })
    .is_ok()
}

/// Makes every running thread of the world that has registered execute a fence, including this one. Returns whether
/// that worked.
pub(super) fn fence_everywhere(private: bool) -> bool {
    membarrier(if private { MembarrierCommand::PrivateExpedited } else { MembarrierCommand::GlobalExpedited }).is_ok()
}
