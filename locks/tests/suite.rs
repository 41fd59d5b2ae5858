//! The conformance suite finds locks that are wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmalab_atomics::{Address, RemoteAtomics, WORD};
use rmalab_locks::{Place, RawMutex, Result, suite};

/// All tests of the process share one patience of the suite.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns the message of a run of the suite, if it finds a fault.
fn said(run: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
    Some(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "no text".into()))
}

/// A test-and-set that is split into a get and a put, so two ranks may see the lock free.
struct GetThenPut(Address);

impl RawMutex for GetThenPut {
    const NAME: &'static str = "get-then-put";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> Result<GetThenPut> {
        Ok(GetThenPut(place.word(0)))
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        while ra.get(self.0)? != 0 {
            ra.pause(4)?;
        }
        Ok(ra.put(self.0, 1)?)
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.put(self.0, 0)?;
        Ok(ra.flush(self.0.rank)?)
    }
}

#[test]
fn a_lock_that_two_ranks_can_hold_is_found_in_every_run() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let found: Vec<String> = (0..40).filter_map(|_| said(|| suite::mutex::<GetThenPut>(()))).collect();
    assert_eq!(found.len(), 40, "{found:?}");
    assert!(found.iter().all(|said| !said.contains("no rank has come further")), "{found:?}");
}

/// A lock that is never released: it waits by pauses, or by nothing at all.
struct NeverFree<const PAUSES: bool>(Address);

impl<const PAUSES: bool> RawMutex for NeverFree<PAUSES> {
    const NAME: &'static str = "never-free";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> Result<Self> {
        Ok(NeverFree(place.word(0)))
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        while ra.compare_and_swap(self.0, 0, 1)? != 0 {
            if PAUSES {
                ra.pause(4)?;
            }
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, _: &A) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_lock_that_is_never_released_ends_the_suite_with_its_name_and_word() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    suite::set_patience(Duration::from_millis(500));
    for run in [suite::mutex::<NeverFree<true>>, suite::mutex::<NeverFree<false>>] {
        let said = said(|| run(())).expect("the suite ends");
        for part in ["never-free", "rank ", "acquire", "compare_and_swap on", "the lock is not released"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    suite::set_patience(Duration::from_secs(10));
}
