//! PMIx, with which Open MPI's `mpirun`, PRRTE's `prterun` and Slurm (`srun --mpi=pmix`) carry data between ranks.
//!
//! Source: PMIx Standard 4.1, chapters 3 (data structures), 5 (`PMIx_Init`, `PMIx_Finalize`) and 7 (`PMIx_Put`,
//! `PMIx_Commit`, `PMIx_Fence`, `PMIx_Get`).
//!
//! The protocol between rank and launcher is private to the library, so this uses the system's `libpmix`, which is loaded
//! when a rank needs it. The structures here belong to the versions 3 to 5 of the library, which share the name
//! `libpmix.so.2` with version 2. Only the needed member of a library's value is read, since the values of version 2 are
//! shorter.
//!
//! Rank 0 puts the invitation; a fence over all ranks collects the data; the others get them. Then all finalize, since
//! for a launcher a rank that ends without that has failed.
//!
//! The library's calls have no deadlines. They run on a separate thread, which is abandoned when the rank's time limit
//! is over.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Display;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{Bootstrap, Invitation, Opener, from_rank_0};
use crate::{Error, Rank, Result};

/// The library's name, the same since version 2.
const LIBRARY: &CStr = c"libpmix.so.2";

/// The key under which the invitation is put.
const KEY: &CStr = c"rmalab.invitation";
/// The number of ranks of a job, a `UINT32`.
const JOB_SIZE: &CStr = c"pmix.job.size";
/// The number of them on this host, a `UINT32`.
const LOCAL_SIZE: &CStr = c"pmix.local.size";
/// True if a fence collects the ranks' data, a `BOOL`.
const COLLECT_DATA: &CStr = c"pmix.collect";

const SUCCESS: c_int = 0;
const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT32: u16 = 14;
/// Data for all ranks on all hosts.
const GLOBAL: u8 = 3;
/// Denotes the job itself in place of a rank.
const WILDCARD: u32 = u32::MAX - 1;

/// `pmix_key_t`
type Key = [c_char; 512];

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone)]
struct Proc {
    nspace: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    flag: bool,
    uint32: u32,
    string: *mut c_char,
    /// The size of the longest member of the original.
    room: [u64; 3],
}

/// `pmix_info_t`
#[repr(C)]
struct Info {
    key: Key,
    flags: u32,
    value: Value,
}

// The offsets that the headers of 4.2.2 give on 64-bit machines.
const _: () = {
    assert!(size_of::<Proc>() == 260 && std::mem::offset_of!(Proc, rank) == 256);
    assert!(size_of::<Value>() == 32 && std::mem::offset_of!(Value, data) == 8);
    assert!(size_of::<Info>() == 552 && std::mem::offset_of!(Info, flags) == 512);
    assert!(std::mem::offset_of!(Info, value) == 520);
};

// The functions of the library that are needed here: `PMIx_Init` and so on.
type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

#[derive(Clone, Copy)]
struct Library {
    init: Init,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    finalize: Finalize,
    error_string: ErrorString,
}

impl Library {
    fn load() -> Result<Library> {
        // The library's plug-ins look for its symbols among the global ones. SAFETY: the name ends with a null byte.
        // Loading runs the library's initializers, on which the launcher relies, since the library belongs to it.
        // Nothing unloads it.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            return Err(Error::world(format!(
                "this process was started through PMIx, and the system's libpmix cannot be loaded ({}); install it (libpmix2 in Debian), or start the ranks with `rmalab launch` or MPICH's mpiexec",
                load_error()
            )));
        }
        let find = |name: &CStr| {
            // SAFETY: the handle is open, and stays so.
            let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if symbol.is_null() {
                return Err(Error::world(format!(
                    "the system's libpmix has no {} ({})",
                    name.to_string_lossy(),
                    load_error()
                )));
            }
            Ok(symbol)
        };
        // SAFETY: the symbols are functions with these signatures, by the standard named at the head of this file. They
        // stay in place, since the library is never unloaded.
        unsafe {
            Ok(Library {
                init: std::mem::transmute::<*mut c_void, Init>(find(c"PMIx_Init")?),
                put: std::mem::transmute::<*mut c_void, Put>(find(c"PMIx_Put")?),
                commit: std::mem::transmute::<*mut c_void, Commit>(find(c"PMIx_Commit")?),
                fence: std::mem::transmute::<*mut c_void, Fence>(find(c"PMIx_Fence")?),
                get: std::mem::transmute::<*mut c_void, Get>(find(c"PMIx_Get")?),
                finalize: std::mem::transmute::<*mut c_void, Finalize>(find(c"PMIx_Finalize")?),
                error_string: std::mem::transmute::<*mut c_void, ErrorString>(find(c"PMIx_Error_string")?),
            })
        }
    }

    fn check(&self, what: &str, status: c_int) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: it takes any number, and returns a string that is never freed, or none.
        let words = unsafe {
            let words = (self.error_string)(status);
            if words.is_null() { "unknown".into() } else { CStr::from_ptr(words).to_string_lossy() }
        };
        Err(Error::world(format!("{what}: the PMIx library answers {words} ({status})")))
    }

    /// Becomes a client of the launcher, and returns the identity of this process.
    fn init(&self) -> Result<Proc> {
        let mut me = Proc { nspace: [0; 256], rank: 0 };
        // SAFETY: the call writes to `me`, which is a `pmix_proc_t`, and reads no information.
        let status = unsafe { (self.init)(&raw mut me, std::ptr::null_mut(), 0) };
        self.check("reaching the launcher's PMIx server (PMIx_Init)", status)?;
        Ok(me)
    }

    fn put(&self, key: &CStr, text: &str) -> Result<()> {
        let text = CString::new(text).map_err(|error| Error::system("passing text to PMIx_Put", error))?;
        let mut value = Value { kind: STRING, data: Data { room: [0; 3] } };
        value.data.string = text.as_ptr().cast_mut();
        // SAFETY: the key is in an array of the length of keys; the value is a string, which the library copies.
        let status = unsafe { (self.put)(GLOBAL, padded(key).as_ptr(), &raw mut value) };
        self.check("telling the ranks where to meet (PMIx_Put)", status)?;
        // SAFETY: the library has been initialized, since every caller has the result of `init`.
        self.check("telling the ranks where to meet (PMIx_Commit)", unsafe { (self.commit)() })
    }

    /// Waits for all ranks of the job, and collects their data.
    fn fence(&self) -> Result<()> {
        let mut collect =
            Info { key: padded(COLLECT_DATA), flags: 0, value: Value { kind: BOOL, data: Data { room: [0; 3] } } };
        collect.value.data.flag = true;
        // SAFETY: an empty list of processes denotes the whole job. The call only reads the one piece of information.
        let status = unsafe { (self.fence)(std::ptr::null(), 0, &raw const collect, 1) };
        self.check("meeting the other ranks (PMIx_Fence)", status)
    }

    /// Returns the value of `of` under `key`, which `take` extracts; `take` gets only values of type `kind`.
    fn get<T>(&self, of: &Proc, key: &CStr, kind: u16, take: impl FnOnce(*const Data) -> Option<T>) -> Result<T> {
        let name = key.to_string_lossy();
        let mut value = std::ptr::null_mut();
        // SAFETY: the process is a `pmix_proc_t`, the key is as long as keys are, and `value` takes the pointer.
        let status = unsafe { (self.get)(of, padded(key).as_ptr(), std::ptr::null(), 0, &raw mut value) };
        self.check(&format!("asking for {name} (PMIx_Get)"), status)?;
        if value.is_null() {
            return Err(Error::world(format!("asking for {name} (PMIx_Get): no value")));
        }
        // SAFETY: the library reports that it has written a value, which this process then owns; its type selects the
        // member of the union. The standard's PMIX_VALUE_RELEASE frees both, as is done here.
        let taken = unsafe {
            let found = (*value).kind;
            let taken = if found == kind { take(&raw const (*value).data) } else { None };
            if found == STRING {
                libc::free((*value).data.string.cast());
            }
            libc::free(value.cast());
            taken
        };
        taken.ok_or_else(|| Error::world(format!("asking for {name} (PMIx_Get): a value of another type")))
    }

    fn number(&self, of: &Proc, key: &CStr) -> Result<u32> {
        // SAFETY: `get` passes it only values of this type.
        self.get(of, key, UINT32, |data| Some(unsafe { (*data).uint32 }))
    }

    fn text(&self, of: &Proc, key: &CStr) -> Result<String> {
        self.get(of, key, STRING, |data| {
            // SAFETY: `get` passes only strings, which end with a null byte unless the pointer is null.
            unsafe {
                let string = (*data).string;
                (!string.is_null()).then(|| CStr::from_ptr(string).to_string_lossy().into_owned())
            }
        })
    }

    fn finalize(&self) -> Result<()> {
        // SAFETY: the library has been initialized, and it is not used after this.
        self.check("leaving the launcher's PMIx server (PMIx_Finalize)", unsafe {
            (self.finalize)(std::ptr::null(), 0)
        })
    }
}

/// Returns the reason why the dynamic linker has refused, in its words.
fn load_error() -> String {
    // SAFETY: it returns a string that stays until the next call of this thread, or none.
    unsafe {
        let words = libc::dlerror();
        if words.is_null() { "unknown".into() } else { CStr::from_ptr(words).to_string_lossy().into_owned() }
    }
}

fn padded(key: &CStr) -> Key {
    let mut padded = [0; 512];
    // One byte is left for the end.
    for (to, from) in padded[..511].iter_mut().zip(key.to_bytes()) {
        *to = *from as c_char;
    }
    padded
}

/// Runs `calls` on a separate thread, and waits for them until `deadline`.
fn patiently<T: Send + 'static>(
    what: &dyn Display,
    patience: Duration,
    calls: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    let (done, result) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("rmalab-pmix".into())
        .spawn(move || {
            // A caller that has given up no longer listens.
            let _ = done.send(calls());
        })
        .map_err(|error| Error::system("starting the thread that speaks PMIx", error))?;
    match result.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(result) => result,
        Err(_) => Err(Error::world(format!(
            "{what}: no answer through PMIx within {patience:?} (RMALAB_TIMEOUT sets how many seconds to wait)"
        ))),
    }
}

/// A rank that a launcher with PMIx has started.
pub(super) struct Pmix {
    library: Library,
    me: Proc,
    size: u32,
    one_host: Option<bool>,
    patience: Duration,
}

impl std::fmt::Debug for Pmix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pmix").field("rank", &self.me.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Pmix {
    /// Loads the library and reaches the launcher; once in the life of a process.
    pub(super) fn connect(patience: Duration) -> Result<Pmix> {
        patiently(&"reaching the launcher", patience, move || {
            let library = Library::load()?;
            let me = library.init()?;
            let job = Proc { rank: WILDCARD, ..me.clone() };
            let size = library.number(&job, JOB_SIZE)?;
            if me.rank >= size {
                return Err(Error::world(format!("the launcher's PMIx server says rank {} of {size}", me.rank)));
            }
            // Not every server reports this number.
            let one_host = library.number(&job, LOCAL_SIZE).ok().map(|local| local == size);
            Ok(Pmix { library, me, size, one_host, patience })
        })
    }
}

impl Bootstrap for Pmix {
    fn name(&self) -> &'static str {
        "pmix"
    }

    fn rank(&self) -> Rank {
        Rank(self.me.rank)
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn one_host(&self) -> Option<bool> {
        self.one_host
    }

    fn invitation(&mut self, open: Opener<'_>) -> Result<Invitation> {
        // If rank 0 has no data, the others get an empty text, and do not wait for it.
        let mine = (self.me.rank == 0).then(open);
        let text = mine.as_ref().map(|opened| opened.as_ref().map_or_else(|_| String::new(), Invitation::to_text));
        let (library, host) = (self.library, Proc { rank: 0, ..self.me.clone() });
        let found = patiently(&"meeting the other ranks", self.patience, move || {
            if let Some(text) = &text {
                library.put(KEY, text)?;
            }
            library.fence()?;
            let found = if text.is_some() { Ok(String::new()) } else { library.text(&host, KEY) };
            library.finalize()?;
            found
        });
        match mine {
            // The rank's own error comes first, since it is the cause of all others.
            Some(mine) => mine.and_then(|mine| found.map(|_| Invitation { host: Some(Rank(0)), ..mine })),
            None => from_rank_0(&found?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_with_a_null_byte_whatever_their_length() {
        for length in [0, 5, 511, 600] {
            let key = CString::new(vec![b'k'; length]).unwrap();
            let padded = padded(&key);
            assert_eq!(padded.iter().position(|byte| *byte == 0), Some(length.min(511)));
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_waited_for_until_the_limit() {
        let (never, waits) = mpsc::channel::<()>();
        let words = patiently(&"waiting", Duration::from_millis(20), move || {
            waits.recv().ok();
            Ok(())
        });
        assert!(words.unwrap_err().to_string().contains("20ms"));
        drop(never);
        assert_eq!(patiently(&"asking", Duration::from_secs(20), || Ok(7)).unwrap(), 7);
    }
}
