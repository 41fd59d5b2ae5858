//! Windows of mode `policy`: epochs and locks by the engine, data by the host.

use std::cell::RefCell;
use std::ffi::c_int;

use rmalab_atomics::{Mpi, Rank};
use rmalab_windows::{Assert, Call, Class, Error, FenceAssert, Info, LockKind, PostAssert, StartAssert};

use crate::boundary::engine::{Engine, Memory, Shared};
use crate::boundary::host::{self, Comm, Group, Win};
use crate::settings::{Control, Mode, Settings};
use crate::world::Worlds;

/// The reason why a call on a managed window has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The engine refuses it. The window's error handler has not got the error yet.
    Engine(Error),
    /// The host has refused it with this code, and has called the error handler.
    Host(c_int),
    /// It is refused with this class or code. The window's error handler has not got the error yet.
    Class(c_int),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The engine of a window, by its kind of world.
enum Engines {
    Shared(Engine<Shared>),
    Remote(Engine<Mpi>),
}

/// Calls a method of the engine's window.
macro_rules! raw {
    ($managed:expr, $raw:ident => $call:expr) => {
        match &$managed.engine {
            Engines::Shared(engine) => {
                let $raw = engine.raw();
                $call
            }
            Engines::Remote(engine) => {
                let $raw = engine.raw();
                let done = $call;
                // The program may wait inside the host from here on.
                engine.ranks().send_off();
                done
            }
        }
    };
}

impl Engines {
    /// Makes the engine of a window of `comm`. Collective: all ranks return an error, or none does.
    fn new(comm: Comm, worlds: &Worlds, settings: &Settings) -> std::result::Result<Engines, String> {
        if settings.control != Control::Remote {
            match worlds.make_shared(comm) {
                Ok(ranks) => {
                    return Engine::new(ranks, settings.config, Memory::None)
                        .map(Engines::Shared)
                        .map_err(|error| error.to_string());
                }
                Err(why) if settings.control == Control::Shared => return Err(why.to_owned()),
                Err(_) => {}
            }
        }
        let made = Engine::new(&worlds.make_remote(comm, false)?, settings.config, Memory::None);
        let made = match made {
            // The windows of this world have all of its memory.
            Err(error) if error.class() == Class::NoMem => {
                Engine::new(&worlds.make_remote(comm, true)?, settings.config, Memory::None)
            }
            made => made,
        };
        made.map(Engines::Remote).map_err(|error| error.to_string())
    }

    fn control(&self) -> Control {
        match self {
            Engines::Shared(_) => Control::Shared,
            Engines::Remote(_) => Control::Remote,
        }
    }

    fn free(self) -> Result<(), Error> {
        match self {
            Engines::Shared(engine) => engine.free(),
            Engines::Remote(engine) => engine.free(),
        }
    }
}

/// Returns the choices in force, as info keys, of a window with these strategies.
pub(crate) fn strategies(info: &Info, mode: Mode, control: Control) -> Vec<(&'static str, String)> {
    let modes = [("rmalab_mode", mode.to_string()), ("rmalab_control", control.to_string())];
    let strategy = |key| (key, info.get(key).unwrap_or_default().to_owned());
    modes.into_iter().chain(["rmalab_lock_policy", "rmalab_fence", "rmalab_pscw"].map(strategy)).collect()
}

/// A window whose epochs the engine keeps.
pub(crate) struct Managed {
    pub(crate) win: Win,
    engine: Engines,
    /// The window's ranks, to translate groups.
    group: Group,
    /// The targets of the access epoch.
    targets: RefCell<Vec<Rank>>,
}

impl Managed {
    /// Manages `win`, a window of `comm` that the host has just made. Collective: on an error at any rank, the caller gives up at all
    /// ranks.
    pub(crate) fn new(
        win: Win,
        comm: Comm,
        worlds: &Worlds,
        settings: &Settings,
    ) -> std::result::Result<Managed, String> {
        let engine = Engines::new(comm, worlds, settings)?;
        let group = host::group_of(win)?;
        Ok(Managed { win, engine, group, targets: RefCell::default() })
    }

    /// Returns the choices in force, as info keys.
    pub(crate) fn in_force(&self) -> Vec<(&'static str, String)> {
        strategies(&raw!(self, raw => raw.info()), Mode::Policy, self.engine.control())
    }

    /// Opens the host's epoch, which has all operations of the window's life.
    pub(crate) fn open_host(&self) -> Result<()> {
        host::lock_all(self.win)
    }

    /// Ends everything except the host's window. Collective. The failure of one part does not keep the others from
    /// ending.
    pub(crate) fn free(self) -> Result<()> {
        let flushed = host::flush_all(self.win);
        let freed = self.engine.free();
        let unlocked = host::unlock_all(self.win);
        host::free_group(self.group);
        freed?;
        flushed.and(unlocked)
    }

    /// Checks that an epoch is open for an operation on `target`. The null target needs no epoch of the engine, since a lock of it
    /// opens none.
    #[inline]
    pub(crate) fn operate(&self, call: Call, target: Option<Rank>) -> Result<()> {
        let Some(target) = target else { return Ok(()) };
        Ok(raw!(self, raw => raw.operate(call, target, |_| Ok(())))?)
    }

    /// Checks the same for an operation with a request.
    pub(crate) fn operate_with_request(&self, call: Call, target: Option<Rank>) -> Result<()> {
        let Some(target) = target else { return Ok(()) };
        Ok(raw!(self, raw => raw.operate_with_requests(call, target, |_| Ok(())))?)
    }

    pub(crate) fn lock(&self, kind: LockKind, target: Option<Rank>, assert: Assert) -> Result<()> {
        raw!(self, raw => raw.lock(kind, target, assert))?;
        host::sync(self.win)
    }

    pub(crate) fn unlock(&self, target: Option<Rank>) -> Result<()> {
        let done = self.flush_host(target);
        // The lock is released anyway, since others may wait for it.
        raw!(self, raw => raw.unlock(target))?;
        done
    }

    pub(crate) fn lock_all(&self, assert: Assert) -> Result<()> {
        raw!(self, raw => raw.lock_all(assert))?;
        host::sync(self.win)
    }

    pub(crate) fn unlock_all(&self) -> Result<()> {
        let done = host::flush_all(self.win).and_then(|()| host::sync(self.win));
        raw!(self, raw => raw.unlock_all())?;
        done
    }

    pub(crate) fn flush(&self, target: Option<Rank>) -> Result<()> {
        raw!(self, raw => raw.flush_local(target))?;
        target.map_or(Ok(()), |target| host::flush(target, self.win))
    }

    pub(crate) fn flush_local(&self, target: Option<Rank>) -> Result<()> {
        raw!(self, raw => raw.flush_local(target))?;
        target.map_or(Ok(()), |target| host::flush_local(target, self.win))
    }

    pub(crate) fn flush_all(&self) -> Result<()> {
        raw!(self, raw => raw.flush_local_all())?;
        host::flush_all(self.win)
    }

    pub(crate) fn flush_local_all(&self) -> Result<()> {
        raw!(self, raw => raw.flush_local_all())?;
        host::flush_local_all(self.win)
    }

    pub(crate) fn fence(&self, assert: FenceAssert) -> Result<()> {
        let done = if assert.noprecede { Ok(()) } else { host::flush_all(self.win) };
        let done = done.and_then(|()| host::sync(self.win));
        raw!(self, raw => raw.fence(assert))?;
        done?;
        host::sync(self.win)
    }

    pub(crate) fn start(&self, group: Group, assert: StartAssert) -> Result<()> {
        let targets = host::ranks(group, self.group)?;
        raw!(self, raw => raw.start(&targets, assert))?;
        self.targets.replace(targets);
        Ok(())
    }

    pub(crate) fn complete(&self) -> Result<()> {
        let targets = self.targets.take();
        let done = targets.iter().try_for_each(|&target| host::flush(target, self.win));
        // The targets wait for it.
        raw!(self, raw => raw.complete())?;
        done
    }

    pub(crate) fn post(&self, group: Group, assert: PostAssert) -> Result<()> {
        let origins = host::ranks(group, self.group)?;
        host::sync(self.win)?;
        Ok(raw!(self, raw => raw.post(&origins, assert))?)
    }

    pub(crate) fn wait(&self) -> Result<()> {
        raw!(self, raw => raw.wait())?;
        host::sync(self.win)
    }

    pub(crate) fn test(&self) -> Result<bool> {
        // A program that only tests lets the host make progress here.
        host::progress();
        let over = raw!(self, raw => raw.test())?;
        if over {
            host::sync(self.win)?;
        }
        Ok(over)
    }

    /// Completes the operations on `target` there, and orders this rank's own stores before later operations. The engine refuses a target
    /// that does not exist.
    fn flush_host(&self, target: Option<Rank>) -> Result<()> {
        let size = raw!(self, raw => raw.team().size());
        target.filter(|target| target.0 < size).map_or(Ok(()), |target| host::flush(target, self.win))?;
        host::sync(self.win)
    }
}
