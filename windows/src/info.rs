//! Info objects: hints as an ordered map of strings (MPI-4.1, chapter 10).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The longest key, in bytes (`MPI_MAX_INFO_KEY`; the standard allows 32 to 255).
pub const MAX_INFO_KEY: usize = 255;

/// The longest value, in bytes (`MPI_MAX_INFO_VAL`).
pub const MAX_INFO_VAL: usize = 1024;

/// A key or a value that an [`Info`] cannot contain.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InfoError {
    /// The key is empty or too long (`MPI_ERR_INFO_KEY`).
    #[error("info: a key of {len} bytes; keys have 1 to {MAX_INFO_KEY}")]
    Key {
        /// Bytes of the key.
        len: usize,
    },
    /// The value is too long (`MPI_ERR_INFO_VALUE`).
    #[error("info: a value of {len} bytes for '{key}'; values have at most {MAX_INFO_VAL}")]
    Value {
        /// The key.
        key: String,
        /// Bytes of the value.
        len: usize,
    },
    /// The text does not begin with `key=`.
    #[error("info: '{text}' is not a list of the form key=value,key=value")]
    Syntax {
        /// The text.
        text: String,
    },
}

/// Hints for a window: keys and their values, in the order of the keys.
///
/// White space around keys and values is removed, as in MPI.
///
/// As text it is `key=value,key=value`. A piece without `=` belongs to the value before it, so that values can be lists:
///
/// ```
/// use rmalab_windows::Info;
///
/// let info: Info = "no_locks=true,accumulate_ordering=rar,waw,rmalab_fence=naive".parse()?;
/// assert_eq!(info.get("accumulate_ordering"), Some("rar,waw"));
/// assert_eq!(info.to_string(), "accumulate_ordering=rar,waw,no_locks=true,rmalab_fence=naive");
/// # Ok::<(), rmalab_windows::InfoError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Info {
    pairs: BTreeMap<String, String>,
}

impl Info {
    /// Makes an object without hints (`MPI_Info_create`, `MPI_INFO_NULL`).
    pub fn new() -> Info {
        Info::default()
    }

    /// Makes an object with these pairs. If keys are equal, the last one counts.
    ///
    /// # Errors
    ///
    /// The errors of [`set`](Self::set).
    pub fn from_pairs<K: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Info, InfoError> {
        let mut info = Info::new();
        for (key, value) in pairs {
            info.set(key.as_ref(), value.as_ref())?;
        }
        Ok(info)
    }

    /// Sets `key` to `value` and returns the old value (`MPI_Info_set`).
    ///
    /// # Errors
    ///
    /// [`InfoError::Key`] and [`InfoError::Value`] for wrong lengths. The call changes nothing then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<Option<String>, InfoError> {
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || key.len() > MAX_INFO_KEY {
            return Err(InfoError::Key { len: key.len() });
        }
        if value.len() > MAX_INFO_VAL {
            return Err(InfoError::Value { key: key.to_owned(), len: value.len() });
        }
        Ok(self.pairs.insert(key.to_owned(), value.to_owned()))
    }

    /// Returns the value of `key` (`MPI_Info_get_string`).
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.get(key).map(String::as_str)
    }

    /// Removes `key` and returns its value (`MPI_Info_delete`; `None` stands for `MPI_ERR_INFO_NOKEY`).
    pub fn delete(&mut self, key: &str) -> Option<String> {
        self.pairs.remove(key)
    }

    /// Returns all pairs (`MPI_Info_get_nthkey`).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the number of keys (`MPI_Info_get_nkeys`).
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

impl FromStr for Info {
    type Err = InfoError;

    fn from_str(text: &str) -> Result<Info, InfoError> {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for piece in text.split(',') {
            match (piece.split_once('='), pairs.last_mut()) {
                (Some((key, value)), _) => pairs.push((key, value.to_owned())),
                (None, Some((_, value))) => {
                    value.push(',');
                    value.push_str(piece);
                }
                (None, None) if text.trim().is_empty() => {}
                (None, None) => return Err(InfoError::Syntax { text: text.to_owned() }),
            }
        }
        Info::from_pairs(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_set_replaced_and_deleted() {
        let mut info = Info::new();
        assert!(info.is_empty());
        assert_eq!(info.set("b", "1"), Ok(None));
        assert_eq!(info.set(" a ", " 2 "), Ok(None));
        assert_eq!(info.set("b", ""), Ok(Some("1".to_owned())));
        assert_eq!(info.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "")]);
        assert_eq!(info.delete("a"), Some("2".to_owned()));
        assert_eq!((info.delete("a"), info.get("a"), info.len()), (None, None, 1));
    }

    #[test]
    fn lengths_are_limited() {
        let mut info = Info::new();
        let (key, value) = ("k".repeat(MAX_INFO_KEY), "v".repeat(MAX_INFO_VAL));
        info.set(&key, &value).unwrap();
        assert_eq!(info.set("", "1"), Err(InfoError::Key { len: 0 }));
        assert_eq!(info.set(&(key + "k"), "1"), Err(InfoError::Key { len: MAX_INFO_KEY + 1 }));
        let error = info.set("a", &(value + "v")).unwrap_err();
        assert_eq!(error.to_string(), "info: a value of 1025 bytes for 'a'; values have at most 1024");
        assert_eq!(info.len(), 1);
    }

    #[test]
    fn text_is_read_as_it_is_written() {
        for text in ["", "a=", "a=1,b=2", "a=1,2,3,b=x"] {
            assert_eq!(text.parse::<Info>().unwrap().to_string(), text);
        }
        assert_eq!(" a = 1 , 2,b=3".parse::<Info>().unwrap().to_string(), "a=1 , 2,b=3");
        assert_eq!("a=1,a=2".parse::<Info>().unwrap().get("a"), Some("2"));
        assert_eq!("a".parse::<Info>(), Err(InfoError::Syntax { text: "a".to_owned() }));
        assert_eq!("=1".parse::<Info>(), Err(InfoError::Key { len: 0 }));
    }
}
