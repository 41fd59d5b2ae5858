//! Attributes under keyvals, and an error handler, which a program attaches to a window.
//!
//! # Source
//!
//! Attribute caching: MPI-4.1, sections 7.7.1 and 7.7.3. A keyval has a type here, so an attribute is read with the type that it was set with.
//! Windows are never duplicated, so there is no copy callback. The predefined attributes of the standard (section 12.2.6) are methods of
//! the window.
//!
//! Error handlers: MPI-4.1, section 9.3.2. A handler gets each error of a call. If the handler returns, the call returns the error.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use crate::Error;

/// The callback for a deleted attribute. It captures the data that MPI passes as `extra_state`.
type Delete<T> = dyn Fn(&mut T) + Send + Sync;

/// A name for attributes of type `T`, for any number of windows (`MPI_Win_create_keyval`).
///
/// ```
/// use rmalab_windows::{Attributes, Keyval};
///
/// let mut attributes = Attributes::new();
/// let rows = Keyval::new();
/// attributes.set(&rows, 100_u64);
/// assert_eq!(attributes.get(&rows), Some(&100));
/// ```
///
/// A keyval that was freed sets nothing:
///
/// ```compile_fail,E0382
/// # use rmalab_windows::{Attributes, Keyval};
/// let rows = Keyval::new();
/// rows.free();
/// Attributes::new().set(&rows, 100_u64);
/// ```
pub struct Keyval<T> {
    key: Arc<Key<T>>,
}

/// Its address is the keyval's identity, as long as an attribute or the keyval keeps it.
struct Key<T> {
    delete: Option<Box<Delete<T>>>,
}

impl<T: Send + 'static> Keyval<T> {
    /// Makes a keyval without a delete callback.
    pub fn new() -> Keyval<T> {
        Keyval { key: Arc::new(Key { delete: None }) }
    }

    /// Makes a keyval with a delete callback, which gets each attribute before it is deleted, overwritten, or freed with its window.
    ///
    /// The callback should not panic. If it does, a window that is being freed skips the remaining attributes.
    pub fn with_delete(delete: impl Fn(&mut T) + Send + Sync + 'static) -> Keyval<T> {
        Keyval { key: Arc::new(Key { delete: Some(Box::new(delete)) }) }
    }

    /// Frees the keyval (`MPI_Win_free_keyval`), like a drop.
    ///
    /// Attributes that are set stay until their window is freed, but cannot be reached. The delete callback is called then.
    pub fn free(self) {}
}

impl<T: Send + 'static> Default for Keyval<T> {
    fn default() -> Keyval<T> {
        Keyval::new()
    }
}

impl<T> fmt::Debug for Keyval<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_delete = self.key.delete.is_some();
        f.debug_struct("Keyval").field("at", &Arc::as_ptr(&self.key)).field("has_delete", &has_delete).finish()
    }
}

struct Attribute<T> {
    key: Arc<Key<T>>,
    value: T,
}

/// An attribute of any type.
trait Slot: Any + Send {
    /// Calls the delete callback.
    fn delete(&mut self);
}

impl<T: Send + 'static> Slot for Attribute<T> {
    fn delete(&mut self) {
        if let Some(delete) = &self.key.delete {
            delete(&mut self.value);
        }
    }
}

/// The attributes of one window on this rank.
///
/// Freeing or dropping the window deletes the remaining ones, the latest first.
#[derive(Default)]
pub struct Attributes {
    /// In the order in which they were set.
    slots: Vec<Box<dyn Slot>>,
}

impl Attributes {
    /// Makes an empty set of attributes.
    pub fn new() -> Attributes {
        Attributes::default()
    }

    /// Sets the attribute of `keyval`, and returns the replaced attribute, after its delete callback (`MPI_Win_set_attr`).
    pub fn set<T: Send + 'static>(&mut self, keyval: &Keyval<T>, value: T) -> Option<T> {
        let old = self.delete(keyval);
        self.slots.push(Box::new(Attribute { key: Arc::clone(&keyval.key), value }));
        old
    }

    /// Returns the attribute of `keyval`, if it is set (`MPI_Win_get_attr`).
    pub fn get<T: Send + 'static>(&self, keyval: &Keyval<T>) -> Option<&T> {
        self.slots.iter().find_map(|slot| Some(&of(&**slot, keyval)?.value))
    }

    /// Deletes the attribute of `keyval`, and returns it, after its delete callback (`MPI_Win_delete_attr`).
    pub fn delete<T: Send + 'static>(&mut self, keyval: &Keyval<T>) -> Option<T> {
        let at = self.slots.iter().position(|slot| of(&**slot, keyval).is_some())?;
        let mut slot = self.slots.remove(at);
        slot.delete();
        let slot: Box<dyn Any> = slot;
        slot.downcast::<Attribute<T>>().ok().map(|attribute| attribute.value)
    }
}

/// Returns the slot as the attribute of `keyval`, if it has that type.
fn of<'s, T: Send + 'static>(slot: &'s dyn Slot, keyval: &Keyval<T>) -> Option<&'s Attribute<T>> {
    let slot: &dyn Any = slot;
    slot.downcast_ref::<Attribute<T>>().filter(|attribute| Arc::ptr_eq(&attribute.key, &keyval.key))
}

impl Drop for Attributes {
    fn drop(&mut self) {
        while let Some(mut slot) = self.slots.pop() {
            slot.delete();
        }
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attributes").field("len", &self.slots.len()).finish()
    }
}

/// A function that gets an error.
pub type Handler = Arc<dyn Fn(&Error) + Send + Sync>;

/// A window's error handler.
///
/// It gets every error of a call on the window once, before the call returns the error: errors of the window's calls, of its epochs, of
/// operations on their targets, and of requests. An epoch that is dropped cannot return its error. The handler gets it then, and the next
/// call that opens an epoch returns it. Errors of making a window go to no handler, since there is no window yet.
///
/// # The default
///
/// MPI's default is `MPI_ERRORS_ARE_FATAL`, which is [`fatal`](Self::fatal) here. The default here is no handler, which is
/// `MPI_ERRORS_RETURN`: each call returns its errors as a `Result`, and the compiler warns if a program ignores one.
///
/// ```
/// use std::sync::Arc;
///
/// use rmalab_windows::ErrorHandler;
///
/// let errors = ErrorHandler::new();
/// errors.set(Some(Arc::new(|error| eprintln!("window of the left halo: {error}"))));
/// assert!(errors.get().is_some());
/// // As MPI begins:
/// errors.set(Some(ErrorHandler::fatal()));
/// ```
#[derive(Default)]
pub struct ErrorHandler {
    handler: RefCell<Option<Handler>>,
}

impl ErrorHandler {
    /// Makes an empty handler (`MPI_ERRORS_RETURN`).
    pub fn new() -> ErrorHandler {
        ErrorHandler::default()
    }

    /// Returns a handler that writes the error to standard error and aborts the process (`MPI_ERRORS_ARE_FATAL`).
    ///
    /// All ranks that are threads of the process end with it. Ranks of other processes get an error that their peer has failed.
    pub fn fatal() -> Handler {
        Arc::new(|error| {
            eprintln!("fatal error of a window: {error}");
            std::process::abort();
        })
    }

    /// Sets the handler, or none, and returns the old one (`MPI_Win_set_errhandler`).
    pub fn set(&self, handler: Option<Handler>) -> Option<Handler> {
        self.handler.replace(handler)
    }

    /// Returns the handler (`MPI_Win_get_errhandler`).
    pub fn get(&self) -> Option<Handler> {
        self.handler.borrow().clone()
    }

    /// Calls the handler (`MPI_Win_call_errhandler`); `false` if there is none.
    pub fn call(&self, error: &Error) -> bool {
        match self.get() {
            Some(handler) => {
                handler(error);
                true
            }
            None => false,
        }
    }
}

impl fmt::Debug for ErrorHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorHandler").field("set", &self.handler.borrow().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rmalab_atomics::Rank;

    use super::*;

    type Log = Arc<Mutex<Vec<String>>>;

    fn logging<T: fmt::Debug + Send + 'static>(log: &Log, name: &'static str) -> Keyval<T> {
        let log = Arc::clone(log);
        Keyval::with_delete(move |value| log.lock().unwrap().push(format!("{name} {value:?}")))
    }

    fn take(log: &Log) -> Vec<String> {
        std::mem::take(&mut log.lock().unwrap())
    }

    #[test]
    fn attributes_are_found_by_their_keyval() {
        let mut attributes = Attributes::new();
        let (one, other, text) = (Keyval::<u32>::new(), Keyval::<u32>::new(), Keyval::<String>::new());
        assert_eq!(attributes.set(&one, 1), None);
        assert_eq!(attributes.set(&text, "2".to_owned()), None);
        assert_eq!((attributes.get(&one), attributes.get(&other)), (Some(&1), None));
        assert_eq!(attributes.get(&text).map(String::as_str), Some("2"));
        assert_eq!(attributes.set(&one, 3), Some(1));
        assert_eq!(attributes.get(&one), Some(&3));
        assert_eq!(Attributes::new().get(&one), None);
        assert_eq!((attributes.delete(&one), attributes.delete(&one)), (Some(3), None));
        assert_eq!(attributes.get(&one), None);
    }

    #[test]
    fn callbacks_are_called_once_for_each_value() {
        let log = Log::default();
        let (a, b, c) = (logging::<u8>(&log, "a"), logging::<u8>(&log, "b"), logging::<&str>(&log, "c"));
        let mut attributes = Attributes::new();
        attributes.set(&a, 1);
        attributes.set(&b, 2);
        attributes.set(&c, "3");
        assert!(take(&log).is_empty());
        attributes.set(&b, 4);
        assert_eq!(take(&log), ["b 2"]);
        attributes.set(&a, 5);
        attributes.delete(&c);
        assert_eq!(take(&log), ["a 1", "c \"3\""]);
        attributes.set(&c, "6");
        drop(attributes);
        assert_eq!(take(&log), ["c \"6\"", "a 5", "b 4"], "the last one set first");
    }

    #[test]
    fn attributes_outlive_their_keyval() {
        let log = Log::default();
        let keyval = logging::<u8>(&log, "a");
        let mut attributes = Attributes::new();
        attributes.set(&keyval, 1);
        keyval.free();
        let next = logging::<u8>(&log, "b");
        assert_eq!(attributes.get(&next), None);
        assert!(take(&log).is_empty());
        drop(attributes);
        assert_eq!(take(&log), ["a 1"]);
    }

    #[test]
    fn the_handler_that_is_set_is_called() {
        let errors = ErrorHandler::new();
        let error = Error::from(rmalab_atomics::Error::PeerFailed { rank: Rank(3) });
        assert!(!errors.call(&error));
        let log = Log::default();
        let to_log = |name: &'static str| -> Handler {
            let log = Arc::clone(&log);
            Arc::new(move |error| log.lock().unwrap().push(format!("{name}: {error}")))
        };
        assert!(errors.set(Some(to_log("first"))).is_none());
        assert!(errors.call(&error));
        assert!(errors.set(Some(to_log("second"))).is_some_and(|first| Arc::strong_count(&first) == 1));
        assert!(errors.call(&error));
        assert_eq!(take(&log), [format!("first: {error}"), format!("second: {error}")]);
        errors.set(None);
        assert!(errors.get().is_none() && !errors.call(&error));
    }
}
