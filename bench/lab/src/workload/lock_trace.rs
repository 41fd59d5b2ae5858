//! Traces of transactions and the locks that each takes, in the format of ShiftLock's artifact.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use rmalab_locks::LockKind;
use rmalab_report::numbers::{counted, number};

use super::WorkloadError;
use super::read::shown;
use super::table::MAX_LOCKS;

/// The most requests of a trace; they and their transactions take at most half a gibibyte.
pub const MAX_REQUESTS: u32 = 1 << 26;

/// The most requests of a transaction, repeated ones included.
const MAX_OF_TRANSACTION: usize = 1 << 16;

/// The longest line, in bytes.
const LONGEST_LINE: u64 = 1024;

/// The longest file, in bytes: a pipe may never end.
const LONGEST: u64 = 1 << 36;

/// A trace in memory.
///
/// ```text
/// txn,0,type,lock,mode
/// 17,0,3,4711,1
/// 17,0,3,12,2
/// 18,0,1,12,1
/// ```
///
/// A line is a request: its transaction's number, 0, the transaction's type, the lock, and the mode (1 is shared, 2 is exclusive). The
/// lines of a transaction follow each other; a number that comes again later is another transaction. Lines that do not begin with a digit
/// are skipped. A transaction takes its locks by rising numbers, so that no two transactions wait for each other, and releases them when it
/// has all. A lock that it asks for twice is taken once, in the stronger mode. Unlike in the artifact's loader, the last transaction
/// counts, and a transaction may have more than 16 locks.
///
/// The file is read line by line. A request takes 4 bytes of memory, and a transaction 4 more.
#[derive(Clone, PartialEq, Eq)]
pub struct LockTrace {
    /// The file's name.
    name: String,
    /// The requests of all transactions, each transaction's by rising numbers of locks. A request is twice the lock, and one more
    /// if it is exclusive.
    requests: Vec<u32>,
    /// For each transaction, the end of its requests.
    ends: Vec<u32>,
    /// One more than the highest lock.
    locks: u32,
    /// The number of exclusive requests.
    exclusive: u32,
}

impl LockTrace {
    /// Reads the trace in a file.
    ///
    /// # Errors
    ///
    /// Errors of the operating system, and the first line that is no request of a trace.
    pub fn read(file: &Path) -> Result<LockTrace, WorkloadError> {
        let failed = |what: String| WorkloadError { file: file.to_owned(), line: None, key: String::new(), what };
        LockTrace::parse(file, BufReader::new(File::open(file).map_err(|error| failed(error.to_string()))?))
    }

    /// Reads a trace from `lines`; errors name it `file`.
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read).
    pub fn parse(file: &Path, lines: impl BufRead) -> Result<LockTrace, WorkloadError> {
        let name =
            file.file_name().map_or_else(String::new, |name| name.to_string_lossy().replace(char::is_control, " "));
        let mut trace = LockTrace { name, requests: Vec::new(), ends: Vec::new(), locks: 0, exclusive: 0 };
        let mut lines = lines.take(LONGEST);
        let (mut line, mut number, mut present) = (Vec::new(), 0, None);
        loop {
            number += 1;
            let failed =
                |what: String| WorkloadError { file: file.to_owned(), line: Some(number), key: String::new(), what };
            line.clear();
            let read = lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            if read.map_err(|error| failed(error.to_string()))? == 0 {
                break;
            }
            if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
                return Err(failed(format!(
                    "the line has more than {LONGEST_LINE} bytes, so this is no trace of locks"
                )));
            }
            if !line.first().is_some_and(u8::is_ascii_digit) {
                continue;
            }
            let (transaction, lock, exclusive) = request(&line).map_err(&failed)?;
            if present.is_some_and(|present| present != transaction) {
                trace.end();
            }
            present = Some(transaction);
            trace.requests.push(2 * lock + u32::from(exclusive));
            trace.locks = trace.locks.max(lock + 1);
            let begun = trace.requests.len() - trace.ends.last().map_or(0, |&end| end as usize);
            if begun > MAX_OF_TRANSACTION {
                return Err(failed(format!("transaction {transaction} has more than {MAX_OF_TRANSACTION} requests")));
            }
            if trace.requests.len() > MAX_REQUESTS as usize {
                return Err(failed(format!(
                    "the trace has more than {MAX_REQUESTS} requests; cut it after some million"
                )));
            }
        }
        let failed = |what: String| WorkloadError { file: file.to_owned(), line: None, key: String::new(), what };
        if lines.limit() == 0 {
            return Err(failed(format!("it has more than {LONGEST} bytes, the limit for a trace")));
        }
        if present.is_none() {
            return Err(failed(
                "there is no transaction in it; a line is txn,0,type,lock,mode, such as 17,0,3,4711,1".to_owned(),
            ));
        }
        trace.end();
        Ok(trace)
    }

    /// Ends a transaction: sorts its requests, and merges the requests of a lock.
    fn end(&mut self) {
        let begin = self.ends.last().map_or(0, |&end| end as usize);
        self.requests[begin..].sort_unstable();
        // Of equal locks the last one is the strongest.
        let mut kept = begin;
        for at in begin..self.requests.len() {
            let request = self.requests[at];
            if kept > begin && self.requests[kept - 1] / 2 == request / 2 {
                kept -= 1;
            }
            self.requests[kept] = request;
            kept += 1;
        }
        self.requests.truncate(kept);
        self.exclusive += self.requests[begin..].iter().map(|request| request & 1).sum::<u32>();
        self.ends.push(kept as u32);
    }

    /// One more than the highest lock.
    pub fn locks(&self) -> u32 {
        self.locks
    }

    /// The number of transactions, at least 1.
    pub fn transactions(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The number of requests of all transactions.
    pub fn requests(&self) -> u32 {
        self.requests.len() as u32
    }

    /// The share of exclusive requests.
    pub fn exclusive(&self) -> f64 {
        f64::from(self.exclusive) / f64::from(self.requests())
    }

    /// The locks of a transaction, by rising numbers, each once.
    pub fn transaction(&self, number: u32) -> impl Iterator<Item = (u32, LockKind)> + '_ {
        let number = number as usize;
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.requests[begin..self.ends[number] as usize].iter().map(|request| {
            let kind = if request & 1 == 1 { LockKind::Exclusive } else { LockKind::Shared };
            (request / 2, kind)
        })
    }
}

impl fmt::Display for LockTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transactions = counted(self.transactions().into(), "transaction");
        let each = f64::from(self.requests()) / f64::from(self.transactions());
        write!(f, "{} of {transactions}, {} locks each", self.name, number(each))
    }
}

impl fmt::Debug for LockTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockTrace({self})")
    }
}

/// Reads a line: the transaction's number, the lock, and whether it is exclusive.
fn request(line: &[u8]) -> Result<(u64, u32, bool), String> {
    let line = String::from_utf8_lossy(line);
    let mut columns = line.trim_end().split(',').map(str::trim);
    let [Some(transaction), Some(zero), Some(kind), Some(lock), Some(mode), None] =
        std::array::from_fn(|_| columns.next())
    else {
        let count = line.split(',').count();
        return Err(format!("{} instead of the 5 of txn,0,type,lock,mode", counted(count as u64, "column")));
    };
    // `parse` alone would take a sign.
    let whole = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
    let transaction = whole(transaction)
        .ok_or_else(|| format!("the transaction {} is not a number below 2^64", shown(transaction)))?;
    if zero != "0" {
        return Err(format!("column 2 is {}, but 0 in every trace of this format", shown(zero)));
    }
    whole(kind).ok_or_else(|| format!("the type {} is not a whole number", shown(kind)))?;
    let lock = whole(lock)
        .filter(|&lock| lock < MAX_LOCKS.into())
        .ok_or_else(|| format!("the lock {} is not a number from 0 to {}", shown(lock), MAX_LOCKS - 1))?;
    let exclusive = match mode {
        "1" => false,
        "2" => true,
        _ => return Err(format!("the mode {} is neither 1 (shared) nor 2 (exclusive)", shown(mode))),
    };
    Ok((transaction, lock as u32, exclusive))
}

/// A client of a trace: client i of n takes transactions i, i + n, and so on, and begins again after the last one.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    trace: Arc<LockTrace>,
    client: u32,
    clients: u32,
    /// The next transaction.
    at: u32,
}

impl Client {
    /// Client `client` of `clients`. With more clients than transactions, several have the same ones.
    pub(crate) fn new(trace: Arc<LockTrace>, client: u32, clients: u32) -> Client {
        let client = client % trace.transactions();
        Client { trace, client, clients, at: client }
    }

    /// The locks of the next transaction, by rising numbers.
    pub(crate) fn next(&mut self) -> impl Iterator<Item = (u32, LockKind)> + '_ {
        let now = self.at;
        let after = now.checked_add(self.clients).filter(|&after| after < self.trace.transactions());
        self.at = after.unwrap_or(self.client);
        self.trace.transaction(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LockTrace, String> {
        LockTrace::parse(Path::new("dir/t.csv"), text.as_bytes()).map_err(|error| error.to_string())
    }

    fn all(trace: &LockTrace) -> Vec<Vec<(u32, LockKind)>> {
        (0..trace.transactions()).map(|number| trace.transaction(number).collect()).collect()
    }

    const S: LockKind = LockKind::Shared;
    const X: LockKind = LockKind::Exclusive;

    /// Locks are sorted and merged to the stronger mode, numbers distinguish transactions, and the last transaction counts.
    #[test]
    fn a_trace_is_read() {
        let text = "txn,0,type,lock,mode\n# by hand\n7,0,3,5,1\r\n7,0,3,2,2\n7,0,3,5,2\n7,0,3,2,1\n 9,0,1,1,1\n\n8,0,1,9,1\n\
                    8, 0, 1, 9, 1\n7,0,1,0,2";
        let trace = parse(text).unwrap();
        assert_eq!(all(&trace), [vec![(2, X), (5, X)], vec![(9, S)], vec![(0, X)]]);
        assert_eq!((trace.locks(), trace.transactions(), trace.requests()), (10, 3, 4));
        assert_eq!(trace.exclusive(), 0.75);
        assert_eq!(trace.to_string(), "t.csv of 3 transactions, 1.33 locks each");
    }

    #[test]
    fn clients_take_turns() {
        let text: String = (0..5).map(|number| format!("{number},0,1,{number},1\n")).collect();
        let trace = Arc::new(parse(&text).unwrap());
        let taken = |client: u32, clients: u32| {
            let mut client = Client::new(Arc::clone(&trace), client, clients);
            (0..5).map(|_| client.next().next().unwrap().0).collect::<Vec<_>>()
        };
        assert_eq!(taken(0, 1), [0, 1, 2, 3, 4]);
        assert_eq!(taken(0, 2), [0, 2, 4, 0, 2]);
        assert_eq!(taken(1, 2), [1, 3, 1, 3, 1]);
        assert_eq!(taken(4, 5), [4; 5]);
        assert_eq!(taken(6, 8), [1; 5]);
        assert_eq!(taken(1, u32::MAX), [1; 5]);
    }

    #[test]
    fn errors_are_one_line() {
        let long = format!("1,0,1,1,1\n{}\n", "1".repeat(2000));
        let crowd = "1,0,1,1,1\n".repeat(MAX_OF_TRANSACTION + 1);
        for (wrong, what) in [
            ("", "there is no transaction in it; a line is txn,0,type,lock,mode"),
            ("txn,0,type,lock,mode\n", "there is no transaction in it"),
            ("h\n1,0,1,1\n", "2: 4 columns instead of the 5 of txn,0,type,lock,mode"),
            ("1,0,1,1,1,9\n", "1: 6 columns instead of the 5"),
            ("1\n", "1: 1 column instead of the 5"),
            ("1;0;1;1;1\n", "1: 1 column instead of the 5"),
            ("1,5,1,1,1\n", "1: column 2 is '5', but 0 in every trace of this format"),
            ("1a,0,1,1,1\n", "1: the transaction '1a' is not a number below 2^64"),
            ("18446744073709551616,0,1,1,1\n", "1: the transaction '18446744073709551616' is not a number below 2^64"),
            ("1,0,read,1,1\n", "1: the type 'read' is not a whole number"),
            ("1,0,1,1000000000,1\n", "1: the lock '1000000000' is not a number from 0 to 999999999"),
            ("1,0,1,-1,1\n", "1: the lock '-1' is not a number from 0"),
            ("1,0,1,+1,1\n", "1: the lock '+1' is not a number from 0"),
            ("1,0,1,,1\n", "1: the lock '' is not a number from 0"),
            ("1,0,1,1,0\n", "1: the mode '0' is neither 1 (shared) nor 2 (exclusive)"),
            ("1,0,1,1,3\n", "1: the mode '3' is neither 1"),
            (&long, "2: the line has more than 1024 bytes"),
            (&crowd, "65537: transaction 1 has more than 65536 requests"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.starts_with("dir/t.csv:") && error.contains(what) && !error.contains('\n'), "{error}");
        }
        assert!(LockTrace::read(Path::new("/dev/zero")).unwrap_err().to_string().contains("more than 1024 bytes"));
        assert!(LockTrace::read(Path::new("/")).is_err());
    }
}
