//! PMI-1, with which MPICH's Hydra and Slurm (`srun --mpi=pmi2`, which speaks both) carry a few bytes between ranks.
//!
//! Source: "Simple Process Manager Interface v1", Flux RFC 13, sections on environment and wire protocol.
//!
//! The launcher leaves a connected socket open in every rank (`PMI_FD`). A request is one line of `key=value` fields, and
//! so is its answer. Rank 0 puts the invitation, all wait at a barrier, and after it the others get the invitation:
//!
//! ```text
//! cmd=init pmi_version=1 pmi_subversion=1     cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
//! cmd=get_maxes                               cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024
//! cmd=get_my_kvsname                          cmd=my_kvsname kvsname=kvs_17_0
//! cmd=put kvsname=kvs_17_0 key=K value=V      cmd=put_result rc=0
//! cmd=barrier_in                              cmd=barrier_out
//! cmd=get kvsname=kvs_17_0 key=K              cmd=get_result rc=0 value=V
//! cmd=finalize                                cmd=finalize_ack
//! ```
//!
//! The launcher is not trusted: anything except the expected answer is an error.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::{Bootstrap, Invitation, Opener, from_rank_0};
use crate::{Error, Rank, Result};

/// The key under which the invitation is put.
const KEY: &str = "rmalab-invitation";

/// The longest line that a launcher sends, in bytes. The longest values of launchers are far shorter.
const LONGEST: usize = 64 << 10;

/// A rank's connection to a launcher that speaks PMI-1.
#[derive(Debug)]
pub(super) struct Pmi1 {
    stream: UnixStream,
    /// The bytes that have arrived after the last answer.
    ahead: Vec<u8>,
    rank: Rank,
    size: u32,
    one_host: Option<bool>,
    patience: Duration,
}

/// The fields of an answer.
struct Answer(Vec<(String, String)>);

impl Answer {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

impl Pmi1 {
    pub(super) fn new(stream: UnixStream, rank: Rank, size: u32, one_host: Option<bool>, patience: Duration) -> Pmi1 {
        Pmi1 { stream, ahead: Vec::new(), rank, size, one_host, patience }
    }

    /// Sends a request and returns its answer, which must be `due` and must not report an error.
    fn ask(&mut self, request: &str, due: &str, deadline: Instant) -> Result<Answer> {
        let failed = |what: &dyn Display| Error::world(format!("the launcher (PMI_FD), asked {request:?}: {what}"));
        let io_failed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                failed(&format!("no answer within {:?} (RMALAB_TIMEOUT sets how many seconds to wait)", self.patience))
            }
            _ => failed(&error),
        };
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.stream.set_write_timeout(Some(left)).map_err(io_failed)?;
        (&self.stream).write_all(format!("{request}\n").as_bytes()).map_err(io_failed)?;
        let line = loop {
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                break self.ahead.drain(..=end).collect::<Vec<u8>>();
            }
            if self.ahead.len() > LONGEST {
                return Err(failed(&format!("an answer of more than {LONGEST} bytes")));
            }
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(left)).map_err(io_failed)?;
            let mut chunk = [0; 4096];
            match (&self.stream).read(&mut chunk) {
                Ok(0) => return Err(failed(&"it has closed the connection")),
                Ok(count) => self.ahead.extend(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_failed(error)),
            }
        };
        let line = String::from_utf8_lossy(&line);
        let fields = line.split_ascii_whitespace().filter_map(|field| field.split_once('='));
        let answer = Answer(fields.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        if answer.get("cmd") != Some(due) {
            return Err(failed(&format!("it answers {:?} in place of cmd={due}", start(&line))));
        }
        if answer.get("rc").is_some_and(|rc| rc != "0") {
            return Err(failed(&format!("it refuses, {:?}", start(&line))));
        }
        Ok(answer)
    }

    /// Returns the value of a field that an answer has to have.
    fn field(&mut self, request: &str, due: &str, key: &str, deadline: Instant) -> Result<String> {
        let answer = self.ask(request, due, deadline)?;
        let missing = || Error::world(format!("the launcher (PMI_FD), asked {request:?}: no {key} in its answer"));
        answer.get(key).map(str::to_owned).ok_or_else(missing)
    }

    fn put(&mut self, names: &str, text: &str, room: usize, deadline: Instant) -> Result<()> {
        if text.len() >= room {
            return Err(Error::world(format!(
                "the launcher (PMI_FD) takes values of less than {room} bytes, and the invitation of the ranks has {}",
                text.len()
            )));
        }
        self.ask(&format!("cmd=put kvsname={names} key={KEY} value={text}"), "put_result", deadline).map(drop)
    }
}

impl Bootstrap for Pmi1 {
    fn name(&self) -> &'static str {
        "pmi-1"
    }

    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn one_host(&self) -> Option<bool> {
        self.one_host
    }

    fn invitation(&mut self, open: Opener<'_>) -> Result<Invitation> {
        let deadline = Instant::now() + self.patience;
        self.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline)?;
        let room = self.field("cmd=get_maxes", "maxes", "vallen_max", deadline)?;
        let room = room.parse().map_err(|_| {
            Error::world(format!("the launcher (PMI_FD) sends vallen_max={:?}, which is not a number", start(&room)))
        })?;
        let names = self.field("cmd=get_my_kvsname", "my_kvsname", "kvsname", deadline)?;
        // If rank 0 has nothing to put, the others must get an error, and must not wait.
        let mine = (self.rank == Rank(0)).then(|| {
            let invitation = open()?;
            self.put(&names, &invitation.to_text(), room, deadline)?;
            Ok(Invitation { host: Some(Rank(0)), ..invitation })
        });
        self.ask("cmd=barrier_in", "barrier_out", deadline)?;
        let invitation = match mine {
            Some(mine) => mine,
            None => self
                .field(&format!("cmd=get kvsname={names} key={KEY}"), "get_result", "value", deadline)
                .map_err(|error| Error::world(format!("rank 0 has not sent the address where the ranks meet: {error}")))
                .and_then(|text| from_rank_0(&text)),
        };
        // For the launcher, a rank that ends without this word has failed.
        let finalized = self.ask("cmd=finalize", "finalize_ack", deadline);
        invitation.and_then(|invitation| finalized.map(|_| invitation))
    }
}

/// Returns the first part of the launcher's answer, for an error.
fn start(text: &str) -> &str {
    let text = text.trim_end();
    &text[..text.floor_char_boundary(200)]
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::{Barrier, Mutex};

    use proptest::prelude::*;

    use super::*;
    use crate::join::bootstrap::Hub;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn pair(rank: u32, size: u32, patience: Duration) -> (Pmi1, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Pmi1::new(ours, Rank(rank), size, None, patience), theirs)
    }

    fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
        line.split(' ').find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
    }

    /// One rank's part of a correct launcher.
    fn serve(mut stream: &UnixStream, store: &Mutex<Option<String>>, barrier: &Barrier) -> Vec<String> {
        let mut heard = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            let answer = match value(&line, "cmd").unwrap() {
                "init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1".to_owned(),
                "get_maxes" => "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024".to_owned(),
                "get_my_kvsname" => "cmd=my_kvsname rc=0 kvsname=kvs_1_0".to_owned(),
                "put" => {
                    assert_eq!(value(&line, "kvsname"), Some("kvs_1_0"));
                    *store.lock().unwrap() = Some(value(&line, "value").unwrap().to_owned());
                    "cmd=put_result rc=0 msg=success".to_owned()
                }
                "barrier_in" => {
                    barrier.wait();
                    "cmd=barrier_out".to_owned()
                }
                "get" => match &*store.lock().unwrap() {
                    Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                    None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
                },
                "finalize" => "cmd=finalize_ack rc=0".to_owned(),
                other => panic!("{other}"),
            };
            heard.push(line);
            stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
        }
        heard
    }

    /// Makes `size` ranks ask for the invitation.
    fn meet(size: u32, open: impl Fn() -> Result<Invitation> + Sync) -> Vec<Result<Invitation>> {
        let (store, barrier, open) = (Mutex::new(None), Barrier::new(size as usize), &open);
        std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..size)
                .map(|rank| {
                    let (mut pmi, theirs) = pair(rank, size, PATIENCE);
                    let (store, barrier) = (&store, &barrier);
                    scope.spawn(move || {
                        let heard = serve(&theirs, store, barrier);
                        assert_eq!(heard.last().unwrap(), "cmd=finalize");
                    });
                    scope.spawn(move || pmi.invitation(&mut || open()))
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn the_invitation_of_rank_0_reaches_all() {
        let hub = Hub::open(IpAddr::V4(Ipv4Addr::LOCALHOST), 3).unwrap();
        let expected = Invitation { host: Some(Rank(0)), ..hub.invitation().clone() };
        for invitation in meet(3, || Ok(hub.invitation().clone())) {
            assert_eq!(invitation.unwrap(), expected);
        }
    }

    #[test]
    fn all_ranks_get_the_error_of_a_hub_that_cannot_open() {
        let words: Vec<String> = meet(3, || Err(Error::world("no such interface")))
            .into_iter()
            .map(|invitation| invitation.unwrap_err().to_string())
            .collect();
        assert_eq!(words[0], "no such interface");
        for words in &words[1..] {
            assert!(words.contains("rank 0 has not sent") && words.contains("key_not_found"), "{words}");
        }
    }

    /// Returns the error of a rank whose launcher sends `said`, and then nothing more.
    fn hearing(said: &[u8]) -> String {
        let (mut pmi, mut theirs) = pair(1, 2, PATIENCE);
        theirs.write_all(said).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        pmi.invitation(&mut || Err(Error::world("not asked"))).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_forbidden_replies_of_a_launcher() {
        let good = "cmd=response_to_init rc=0\ncmd=maxes vallen_max=1024\ncmd=my_kvsname kvsname=k\ncmd=barrier_out\n";
        for (said, because) in [
            (String::new(), "closed the connection"),
            ("cmd=maxes\n".to_owned(), "in place of cmd=response_to_init"),
            ("cmd=response_to_init rc=-1 msg=version\n".to_owned(), "msg=version"),
            (good.replace("1024", "many"), "vallen_max=\"many\""),
            (good.replace("kvsname=k", ""), "no kvsname"),
            (good.to_owned() + "cmd=get_result rc=0\n", "no value"),
            (good.to_owned() + "cmd=get_result rc=0 value=x\ncmd=finalize_ack\n", "not ADDRESS:PORT/SECRET"),
            (good.to_owned() + "cmd=get_result rc=0 value=x", "closed the connection"),
            ("x".repeat(LONGEST + 1), "more than 65536 bytes"),
        ] {
            let words = hearing(said.as_bytes());
            assert!(words.contains(because), "{words}");
        }
    }

    #[test]
    fn an_invitation_without_room_is_reported() {
        let (mut pmi, mut theirs) = pair(0, 1, PATIENCE);
        let hub = Hub::open(IpAddr::V4(Ipv4Addr::LOCALHOST), 1).unwrap();
        theirs
            .write_all(b"cmd=response_to_init\ncmd=maxes vallen_max=64\ncmd=my_kvsname kvsname=k\ncmd=barrier_out\ncmd=finalize_ack\n")
            .unwrap();
        let words = pmi.invitation(&mut || Ok(hub.invitation().clone())).unwrap_err().to_string();
        assert!(words.contains("less than 64 bytes"), "{words}");
    }

    #[test]
    fn a_launcher_that_is_silent_is_not_waited_for_without_end() {
        let (mut pmi, _theirs) = pair(0, 1, Duration::from_millis(20));
        let words = pmi.invitation(&mut || Err(Error::world("not asked"))).unwrap_err().to_string();
        assert!(words.contains("20ms"), "{words}");
    }

    proptest! {
        #[test]
        fn no_answers_make_a_rank_panic(
            lines in prop::collection::vec(
                prop_oneof![
                    "cmd=(response_to_init|maxes|my_kvsname|barrier_out|get_result|finalize_ack)( (rc|vallen_max|kvsname|value)=[-0-9a-z./:=]{0,9}){0,3}\n",
                    "\\PC{0,40}\n?",
                ],
                0..8,
            ),
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let said = [lines.concat().as_bytes(), &bytes].concat();
            // The wait ends with an error, since none of these is an invitation.
            prop_assert!(!hearing(&said).is_empty());
        }
    }
}
