//! The description of the machine, which a reader needs in order to compare numbers.

use std::fs;
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// Compiler, profile and commit of the program.
///
/// The program sets this at its start. A constant in this crate would rebuild all crates for each commit.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The compiler.
    pub rustc: &'static str,
    /// The build profile.
    pub profile: &'static str,
    /// The source's commit.
    pub commit: &'static str,
}

static BUILD: OnceLock<Build> = OnceLock::new();

impl Build {
    /// Keeps this for all descriptions of the machine. Only the first call has an effect.
    pub fn keep(self) {
        let _ = BUILD.set(self);
    }

    /// The program's values; `unknown` if it has set none.
    pub fn get() -> Build {
        BUILD.get().copied().unwrap_or(Build { rustc: "unknown", profile: "unknown", commit: "unknown" })
    }
}

/// A machine, the program on it, and the speed of operations that all locks use.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// The number of processors that this program may use.
    pub cores: usize,
    /// The numbers of the processors that this program may use, such as `0-1,4`.
    pub affinity: String,
    /// True if the cores run two threads each, as the kernel reports it.
    pub smt: String,
    /// The frequency governor of the first processor.
    pub governor: String,
    /// The load average of the last one, five and fifteen minutes, at the start of the run.
    pub load: String,
    /// The limits of the control group on processors and memory.
    pub limits: String,
    /// The numbers of the machine's NUMA nodes, as the kernel lists them: `0-1` are two.
    pub numa_nodes: String,
    /// The first processor's caches.
    pub caches: Vec<String>,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The operating system's kernel.
    pub kernel: String,
    /// Virtualization, as far as detected.
    pub virtualization: String,
    /// The compiler.
    pub rustc: String,
    /// The build profile.
    pub profile: String,
    /// The source's commit; `dirty` means that the source has changed since.
    pub commit: String,
    /// Round trip of one cache line between two processors, in nanoseconds: the median of several series.
    pub ping_pong_ns: Option<f64>,
    /// One fetch_add on a word that no other thread uses, in nanoseconds.
    pub fetch_add_ns: f64,
    /// One reading of the clock, in nanoseconds: every latency contains it.
    pub clock_ns: f64,
}

/// Series of a measurement. Their median is reported.
const ROUNDS: usize = 9;

impl Machine {
    /// Describes this machine, and measures for some ten milliseconds.
    pub fn describe() -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let field = |text: &str, name: &str| {
            text.lines()
                .find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name))
                .map(|(_, value)| value.trim().to_owned())
        };
        let word = AtomicU64::new(0);
        let build = Build::get();
        Machine {
            cpu: field(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            affinity: affinity(),
            smt: smt(),
            governor: or_unknown(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
            load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(", "),
            limits: limits(),
            numa_nodes: or_unknown(read("/sys/devices/system/node/online")),
            caches: caches(),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
                .map_or(0, |kib| kib / 1024),
            kernel: or_unknown(format!("{} {}", read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease"))),
            virtualization: virtualization(&cpuinfo),
            rustc: build.rustc.into(),
            profile: build.profile.into(),
            commit: build.commit.into(),
            ping_pong_ns: ping_pong(),
            fetch_add_ns: each(100_000, || std::hint::black_box(&word).fetch_add(1, Ordering::SeqCst)),
            clock_ns: each(10_000, || std::hint::black_box(Instant::now())),
        }
    }

    /// The description as rows of a table: names and values.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let ping_pong = self.ping_pong_ns.map_or("not measured (one processor)".into(), |ns| format!("{ns:.0} ns"));
        vec![
            ("Processor", self.cpu.clone()),
            ("Processors usable", self.cores.to_string()),
            ("Their numbers", self.affinity.clone()),
            ("Threads of a core (SMT)", self.smt.clone()),
            ("Frequency governor", self.governor.clone()),
            ("Load of 1, 5 and 15 minutes at the start", self.load.clone()),
            ("Limits of the control group", self.limits.clone()),
            ("NUMA nodes, by number", self.numa_nodes.clone()),
            ("Caches", self.caches.join(", ")),
            ("Memory", format!("{} MiB", self.memory_mib)),
            ("Kernel", self.kernel.clone()),
            ("Virtualization", self.virtualization.clone()),
            ("Compiler", self.rustc.clone()),
            ("Build profile", self.profile.clone()),
            ("Commit", self.commit.clone()),
            ("One-line ping-pong, round trip", ping_pong),
            ("fetch_add on a line of one's own", format!("{:.1} ns", self.fetch_add_ns)),
            ("Reading the clock", format!("{:.1} ns (part of every latency)", self.clock_ns)),
        ]
    }
}

/// A file's text, trimmed; empty if it cannot be read.
fn read(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn or_unknown(text: String) -> String {
    if text.trim().is_empty() { "unknown".into() } else { text }
}

/// The processors that this program may use, neighbours as a range.
fn affinity() -> String {
    let Ok(allowed) = sched_getaffinity(None) else { return "unknown".into() };
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text =
        |(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

fn smt() -> String {
    match read("/sys/devices/system/cpu/smt/active").as_str() {
        "1" => "on".into(),
        "0" => "off".into(),
        _ => "unknown".into(),
    }
}

/// The limits of the control group, such as "2.0 processors, 4096 MiB". Limits of parent groups are not detected.
fn limits() -> String {
    let group = read("/proc/self/cgroup").lines().find_map(|line| line.strip_prefix("0::").map(str::to_owned));
    let Some(group) = group else { return "unknown".into() };
    let file = |name: &str| read(&format!("/sys/fs/cgroup{}/{name}", group.trim_end_matches('/')));
    let mut limits = Vec::new();
    if let Some((Ok(quota), Ok(period))) =
        file("cpu.max").split_once(' ').map(|(q, p)| (q.parse::<f64>(), p.parse::<f64>()))
    {
        limits.push(format!("{:.1} processors", quota / period));
    }
    if let Ok(bytes) = file("memory.max").parse::<u64>() {
        limits.push(format!("{} MiB", bytes >> 20));
    }
    if limits.is_empty() { "none".into() } else { limits.join(", ") }
}

/// The first processor's caches, such as "L1d 32K".
fn caches() -> Vec<String> {
    (0..8)
        .map(|index| format!("/sys/devices/system/cpu/cpu0/cache/index{index}"))
        .filter_map(|folder| {
            let [level, kind, size] = ["level", "type", "size"].map(|file| read(&format!("{folder}/{file}")));
            let kind = match kind.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            (!level.is_empty() && !size.is_empty()).then(|| format!("L{level}{kind} {size}"))
        })
        .collect()
}

fn virtualization(cpuinfo: &str) -> String {
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    let product = read("/sys/class/dmi/id/product_name");
    let guest = cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let name = [vendor, product].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    match (guest, name.is_empty()) {
        (true, true) => "virtual machine".into(),
        (true, false) => format!("virtual machine ({name})"),
        (false, true) => "none seen".into(),
        (false, false) => format!("none detected ({name})"),
    }
}

/// The time of one call, in nanoseconds.
fn each<T>(calls: u32, mut call: impl FnMut() -> T) -> f64 {
    middle(|| {
        let start = Instant::now();
        (0..calls).for_each(|_| drop(call()));
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    })
}

fn middle(mut series: impl FnMut() -> f64) -> f64 {
    let mut results: Vec<f64> = (0..ROUNDS).map(|_| series()).collect();
    results.sort_by(f64::total_cmp);
    results[ROUNDS / 2]
}

/// The round trip of one line between the first and the last processor that this program may use.
///
/// None with a single processor, where it would measure the scheduler, and where the system refuses a thread.
pub fn ping_pong() -> Option<f64> {
    const TRIPS: u64 = 2_000;
    // The value of the line without another thread.
    const ALONE: u64 = u64::MAX;
    let allowed = sched_getaffinity(None).ok()?;
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let (&here, &there) = (usable.first()?, usable.last()?);
    if here == there {
        return None;
    }
    let stay = |cpu: usize| {
        let mut only = CpuSet::new();
        only.set(cpu);
        // A container may forbid it; then the measurement uses the scheduler's choice.
        let _ = sched_setaffinity(None, &only);
    };
    let line = AtomicU64::new(0);
    let line = &line;
    let total = TRIPS * (ROUNDS as u64);
    std::thread::scope(|scope| {
        // Both run on new threads, so that the caller's affinity does not change.
        let echo = move || {
            stay(there);
            for trip in 0..total {
                loop {
                    match line.load(Ordering::Acquire) {
                        ALONE => return,
                        value if value == 2 * trip + 1 => break,
                        _ => spin_loop(),
                    }
                }
                line.store(2 * trip + 2, Ordering::Release);
            }
        };
        let pinger = move || {
            stay(here);
            let mut trip = 0;
            middle(|| {
                let start = Instant::now();
                for _ in 0..TRIPS {
                    line.store(2 * trip + 1, Ordering::Release);
                    trip += 1;
                    while line.load(Ordering::Acquire) != 2 * trip {
                        spin_loop();
                    }
                }
                start.elapsed().as_nanos() as f64 / TRIPS as f64
            })
        };
        let thread = std::thread::Builder::new;
        thread().spawn_scoped(scope, echo).ok()?;
        match thread().spawn_scoped(scope, pinger) {
            Ok(pinger) => pinger.join().ok(),
            Err(_) => {
                line.store(ALONE, Ordering::Release);
                None
            }
        }
    })
}
