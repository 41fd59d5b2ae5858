//! Checks that the calls of one rank fit each other, by MPI's rules.

use std::sync::Arc;

use rmalab_atomics::Rank;

use super::format::{Event, Kind};

/// The ranks' parts of the window: bytes, and bytes of a displacement unit. `None` for a dynamic window.
pub(super) type Parts = Option<Vec<(u64, u32)>>;

/// The open epochs of one rank.
#[derive(Default)]
pub(super) struct Rules {
    all: bool,
    held: Vec<Rank>,
    /// True if the last fence allows operations.
    fenced: bool,
    /// True if there was an operation since the fence.
    used: bool,
    access: Option<Arc<[Rank]>>,
    exposed: bool,
    batches: u64,
    /// The memory that is attached: first address, bytes.
    attached: Vec<(i64, u64)>,
    /// All memory that was ever attached.
    pub(super) regions: Vec<(i64, u64)>,
}

impl Rules {
    /// Makes the call, or returns the reason why the rules do not allow it.
    pub(super) fn check(
        &mut self,
        event: Event,
        group: impl FnOnce() -> Arc<[Rank]>,
        parts: &Parts,
    ) -> Result<(), String> {
        let Event { kind, target, disp, bytes, .. } = event;
        match kind {
            Kind::LockAll => {
                if self.all || !self.held.is_empty() {
                    return Err("a lock_all beside a lock".to_owned());
                }
                self.check_no_epoch("a lock_all", false, false)?;
                self.all = true;
                self.fenced = false;
            }
            Kind::UnlockAll => {
                if !std::mem::take(&mut self.all) {
                    return Err("an unlock_all without a lock_all".to_owned());
                }
            }
            Kind::Shared | Kind::Exclusive => {
                if self.is_locked(target) {
                    return Err(format!("a lock of {target}, which is locked already"));
                }
                self.check_no_epoch("a lock", false, false)?;
                self.held.push(target);
                self.fenced = false;
            }
            Kind::Unlock => {
                let at = self.held.iter().position(|&held| held == target);
                let at = at.ok_or_else(|| format!("an unlock of {target}, which is not locked"))?;
                self.held.swap_remove(at);
            }
            Kind::Flush => {
                if !self.is_locked(target) {
                    return Err(format!("a flush of {target}, which is not locked"));
                }
            }
            Kind::FlushAll => {
                if !self.all && self.held.is_empty() {
                    return Err("a flush_all, but no target is locked".to_owned());
                }
            }
            Kind::Fence => {
                self.check_unlocked("a fence")?;
                if self.access.is_some() || self.exposed {
                    return Err("a fence in an epoch of post or start".to_owned());
                }
                let assert = crate::FenceAssert::from_bits(event.asserts);
                (self.fenced, self.used) = (!assert.nosucceed, false);
            }
            Kind::Start => {
                self.check_unlocked("a start")?;
                self.check_no_epoch("a start", false, true)?;
                self.access = Some(group());
                self.fenced = false;
            }
            Kind::Complete => {
                if self.access.take().is_none() {
                    return Err("a complete without a start".to_owned());
                }
            }
            Kind::Post => {
                self.check_unlocked("a post")?;
                self.check_no_epoch("a post", true, false)?;
                self.exposed = true;
                self.fenced = false;
            }
            Kind::Wait | Kind::TestOpen | Kind::TestOver => {
                if !self.exposed {
                    return Err("a wait or test without a post".to_owned());
                }
                self.exposed = kind == Kind::TestOpen;
            }
            Kind::BatchBegin => self.batches += 1,
            Kind::BatchEnd => {
                let left = self.batches.checked_sub(1);
                self.batches = left.ok_or("the end of a batch that has not begun")?;
            }
            Kind::Attach | Kind::Detach => return self.check_region(event, parts),
            Kind::Barrier => {}
            Kind::Put
            | Kind::Get
            | Kind::Accumulate
            | Kind::GetAccumulate
            | Kind::FetchAndOp
            | Kind::CompareAndSwap => {
                self.check_access(target)?;
                check_bounds(target, disp, bytes, parts)?;
            }
        }
        Ok(())
    }

    fn is_locked(&self, target: Rank) -> bool {
        self.all || self.held.contains(&target)
    }

    fn check_unlocked(&self, call: &str) -> Result<(), String> {
        if self.all || !self.held.is_empty() {
            return Err(format!("{call} while a lock is held"));
        }
        Ok(())
    }

    /// Checks that no epoch is open beside locks, except an access or exposure epoch that is allowed.
    fn check_no_epoch(&self, call: &str, access: bool, exposure: bool) -> Result<(), String> {
        if self.used {
            return Err(format!("{call} in an epoch of fences"));
        }
        if self.access.is_some() && !access {
            return Err(format!("{call} in an epoch of start"));
        }
        if self.exposed && !exposure {
            return Err(format!("{call} in an epoch of post"));
        }
        Ok(())
    }

    /// Checks that an operation on the target belongs to an epoch.
    fn check_access(&mut self, target: Rank) -> Result<(), String> {
        let accessed = self.access.as_ref().is_some_and(|group| group.contains(&target));
        if !self.is_locked(target) && !accessed {
            if !self.fenced || self.access.is_some() {
                return Err(format!("an operation on {target} outside of an epoch"));
            }
            self.used = true;
        }
        Ok(())
    }

    fn check_region(&mut self, event: Event, parts: &Parts) -> Result<(), String> {
        let Event { kind, disp, bytes, .. } = event;
        if parts.is_some() {
            return Err("an attach or a detach on a window that is not dynamic".to_owned());
        }
        let at = self.attached.iter().position(|&(start, _)| start == disp);
        match (kind, at) {
            (Kind::Attach, Some(_)) => return Err(format!("an attach at {disp}, where memory is attached already")),
            (Kind::Attach, None) => {
                // Addresses are unsigned.
                if (disp as u64).checked_add(bytes).is_none() {
                    return Err(format!("an attach of {bytes} bytes at {disp}, beyond all addresses"));
                }
                self.attached.push((disp, bytes));
                self.regions.push((disp, bytes));
            }
            (_, Some(at)) => drop(self.attached.swap_remove(at)),
            (_, None) => return Err(format!("a detach at {disp}, where no memory is attached")),
        }
        Ok(())
    }
}

/// Checks that a target's part of the window has the memory.
fn check_bounds(target: Rank, disp: i64, bytes: u64, parts: &Parts) -> Result<(), String> {
    let Some(&(size, unit)) = parts.as_ref().and_then(|parts| parts.get(target.index())) else { return Ok(()) };
    let start = disp.checked_mul(i64::from(unit)).and_then(|start| u64::try_from(start).ok());
    match start.and_then(|start| start.checked_add(bytes)) {
        Some(end) if end <= size => Ok(()),
        _ if bytes == 0 => Ok(()),
        _ => Err(format!("{bytes} bytes at displacement {disp} of {target}, whose part has {size} bytes")),
    }
}
