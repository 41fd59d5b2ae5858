//! A three-dimensional Fourier transform, distributed by slabs, with puts that overlap the local transforms.
//!
//! # Sources
//!
//! * The program: NAS parallel benchmark FT in the form of R. Nishtala, P. Hargrove, D. Bonachea, K. Yelick, Scaling
//!   communication-intensive applications on BlueGene/P using one-sided communication and overlap, IPDPS'09, as
//!   R. Gerstenberger, M. Besta, T. Hoefler, SC'13, measure it: a rank sends transformed data while it transforms the
//!   rest.
//! * The local transforms: the crate rustfft.
//!
//! # Steps
//!
//! An n × n × n cube of complex numbers; each of p ranks has n / p planes of constant z. It transforms a plane in x and
//! in y. For the transform in z, rank r needs its n / p rows in y of all planes. They are contiguous in a plane, and in
//! its window. Then the rank transforms in z.
//!
//! | how | the pieces |
//! | --- | --- |
//! | overlapped | puts as soon as their plane is transformed |
//! | bulk | puts after all planes are transformed |
//! | messages | one message for each rank after all planes are transformed, as in an MPI_Alltoall |
//!
//! # Check
//!
//! In every run: four coefficients against their definition, a sum over the whole cube, and the inverse transform
//! against the input. Up to 64³, each coefficient against a sequential transform by the same crate. Differences may be
//! 1e-12 of the largest coefficient (or of the largest number of the input); rounding is about 1e-15.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use num_complex::Complex64;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_fft::Plan;
use rmalab_windows::messages::{Messages, Tag};
use rmalab_windows::{Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::halo::{messages, slot_bytes, two_sided};
use super::support::{at_root, compute, hash, root_bytes, signed, sum, within, wrong};
use super::{Application, Strategies};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Table, Value};

/// Bytes of a number.
const NUMBER: u64 = size_of::<Complex64>() as u64;

/// The size up to which all coefficients are compared with a sequential transform.
const SEQUENTIAL: u32 = 64;

/// The largest relative difference that counts as rounding.
const TOLERANCE: f64 = 1e-12;

/// The number of coefficients that are compared with their definition.
const DEFINED: u64 = 4;

/// The seed of the input.
const SEED: u64 = 1991;

/// Time and transport of the pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Puts, as soon as a plane is transformed.
    #[default]
    Overlapped,
    /// Puts, when all planes are transformed.
    Bulk,
    /// Two-sided messages, when all planes are transformed.
    Messages,
}

/// Synchronization of the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// Fences.
    #[default]
    Fence,
    /// Post, start, complete, wait, all ranks with all.
    Pscw,
    /// lock_all, and barriers.
    LockAll,
}

/// Compute a three-dimensional Fourier transform.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fft {
    /// Numbers in each of the three directions: a multiple of the ranks
    #[arg(long, value_name = "NUMBERS", default_value = "64")]
    pub size: u32,
    /// Number of transforms of the cube
    #[arg(long, value_name = "NUMBER", default_value = "5")]
    pub iterations: u32,
    /// Time and transport of the pieces
    #[arg(long, value_enum, default_value_t)]
    pub how: How,
    /// Synchronization of the ranks
    #[arg(long, value_enum, default_value_t)]
    pub sync: Sync,
    /// Computing time of a simulated rank for a floating-point operation, in nanoseconds; a transform of
    /// n numbers takes 5 n log2(n) of them
    #[arg(long, value_name = "NS", default_value = "1")]
    pub flop_ns: f64,
    /// Strategies of the windows
    #[command(flatten)]
    pub strategies: Strategies,
}

/// The result of a rank.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Transformed {
    /// Nanoseconds of a transform of the cube.
    pub ns: f64,
    /// The result of the check; at rank 0.
    pub checked: Option<Checked>,
}

/// The result of the check: the largest relative differences.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Checked {
    /// Of coefficients from their definition.
    pub defined: f64,
    /// Of the inverse transform from the input.
    pub back: f64,
    /// Of the coefficients from a sequential transform, if compared.
    pub sequential: Option<f64>,
}

/// The input at an index of the cube: z, y, x, the last the fastest.
fn input(number: usize) -> Complex64 {
    Complex64::new(signed(SEED, 2 * number as u64), signed(SEED, 2 * number as u64 + 1))
}

/// Transforms of lines of `n` numbers.
struct Lines {
    n: usize,
    plan: Arc<dyn Plan<f64>>,
    scratch: Vec<Complex64>,
    /// Room for lines that are not contiguous.
    turned: Vec<Complex64>,
}

impl Lines {
    fn new(n: usize, inverse: bool) -> Lines {
        let plan = rmalab_fft::plan(n, inverse);
        Lines { n, scratch: vec![Complex64::default(); plan.get_inplace_scratch_len()], plan, turned: Vec::new() }
    }

    /// Transforms contiguous lines, one after the other.
    fn rows(&mut self, numbers: &mut [Complex64]) {
        self.plan.process_with_scratch(numbers, &mut self.scratch);
    }

    /// Transforms the columns of a matrix of n rows.
    fn columns(&mut self, numbers: &mut [Complex64]) {
        let width = numbers.len() / self.n;
        self.turned.clear();
        self.turned.extend((0..numbers.len()).map(|i| numbers[i % self.n * width + i / self.n]));
        self.plan.process_with_scratch(&mut self.turned, &mut self.scratch);
        for (i, number) in self.turned.iter().enumerate() {
            numbers[i % self.n * width + i / self.n] = *number;
        }
    }

    /// Floating-point operations of that many lines.
    fn operations(&self, lines: usize) -> f64 {
        let n = self.n as f64;
        lines as f64 * 5.0 * n * n.log2()
    }
}

/// The transform of a whole cube, sequentially.
fn sequential(n: usize) -> Vec<Complex64> {
    let mut cube: Vec<Complex64> = (0..n * n * n).map(input).collect();
    let mut lines = Lines::new(n, false);
    lines.rows(&mut cube);
    for plane in cube.chunks_mut(n * n) {
        lines.columns(plane);
    }
    lines.columns(&mut cube);
    cube
}

/// A rank's share of a cube.
#[derive(Clone, Copy, Debug)]
struct Share {
    n: usize,
    ranks: usize,
    me: usize,
}

impl Share {
    /// The number of planes, or of rows in each plane, of a rank.
    fn own(self) -> usize {
        self.n / self.ranks
    }

    /// Numbers in a piece: the part of one plane that one rank sends to another rank.
    fn piece(self) -> usize {
        self.own() * self.n
    }

    /// The number of numbers that a rank has.
    fn all(self) -> usize {
        self.piece() * self.n
    }

    /// All ranks, starting with the rank after this one, so that all ranks start with different ranks.
    fn others(self) -> impl Iterator<Item = usize> {
        (1..=self.ranks).map(move |k| (self.me + k) % self.ranks)
    }

    /// This rank's planes of the input.
    fn input(self) -> Vec<Complex64> {
        (self.me * self.all()..(self.me + 1) * self.all()).map(input).collect()
    }
}

/// Writes a piece to an offset of a rank's window.
type Put<'p> = dyn Fn(usize, usize, &[Complex64]) -> Result<()> + 'p;

impl Fft {
    /// Checks that it can run with these options on that many ranks.
    fn fits(&self, ranks: u32) -> Result<()> {
        if !(2..=2048).contains(&self.size) || !self.size.is_multiple_of(ranks) || self.iterations == 0 {
            return Err(Error::usage(format!(
                "fft: --size {} --iterations {} with {ranks} ranks: the size must be a multiple of the ranks, from 2 to \
                 2048, with at least one iteration",
                self.size, self.iterations
            )));
        }
        Ok(())
    }

    /// Lets `body` put pieces into the ranks' windows; afterwards all pieces are there.
    fn epoch<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        window: &mut Window<'_, A>,
        body: impl FnOnce(&Put<'_>) -> Result<()>,
    ) -> Result<()> {
        let rank = |rank: usize| Rank(rank as u32);
        let disp = |number: usize| WindowDisp(number as i64);
        match self.sync {
            Sync::Fence => {
                let epoch = window.fence()?;
                body(&|to, at, piece| Ok(epoch.at(rank(to))?.put(disp(at), piece)?))?;
                epoch.close()?;
            }
            Sync::Pscw => {
                let group: Vec<Rank> = (0..team.size()).map(Rank).collect();
                let (mut access, mut exposure) = window.pscw()?;
                let exposure = exposure.post(&group)?;
                let access = access.start(&group)?;
                body(&|to, at, piece| Ok(access.at(rank(to))?.put(disp(at), piece)?))?;
                access.complete()?;
                exposure.wait()?;
            }
            Sync::LockAll => {
                // No rank still reads the data that the next pieces overwrite.
                team.barrier()?;
                let epoch = window.lock_all()?;
                body(&|to, at, piece| Ok(epoch.at(rank(to))?.put(disp(at), piece)?))?;
                epoch.unlock_all()?;
                team.barrier()?;
            }
        }
        Ok(())
    }

    /// The transform: from planes to rows of one y of all planes, z, y, x.
    fn forward<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        way: &mut Way<'_, '_, A>,
        lines: &mut Lines,
        share: Share,
        mut planes: Vec<Complex64>,
    ) -> Result<Vec<Complex64>> {
        let ra = team.ra();
        let (n, piece) = (share.n, share.piece());
        let first = share.me * share.own();
        let mut transform = |plane: &mut [Complex64]| {
            lines.rows(plane);
            lines.columns(plane);
            compute(ra, lines.operations(2 * n) * self.flop_ns)
        };
        let send = |put: &Put<'_>, z: usize, plane: &[Complex64]| {
            share.others().try_for_each(|to| put(to, (first + z) * piece, &plane[to * piece..][..piece]))
        };
        let mut all = vec![Complex64::default(); share.all()];
        match way {
            Way::Window(window) => {
                self.epoch(team, window, |put| {
                    for (z, plane) in planes.chunks_mut(n * n).enumerate() {
                        transform(plane)?;
                        if self.how == How::Overlapped {
                            send(put, z, plane)?;
                        }
                    }
                    if self.how == How::Bulk {
                        for (z, plane) in planes.chunks(n * n).enumerate() {
                            send(put, z, plane)?;
                        }
                    }
                    Ok(())
                })?;
                window.local()?.read(WindowDisp(0), &mut all)?;
            }
            Way::Messages(messages) => {
                planes.chunks_mut(n * n).try_for_each(transform)?;
                let gather = |to: usize| {
                    planes.chunks(n * n).flat_map(|plane| &plane[to * piece..][..piece]).copied().collect::<Vec<_>>()
                };
                let mut sends = Vec::new();
                for to in share.others().filter(|&to| to != share.me) {
                    let data = bytemuck::cast_slice(&gather(to)).to_vec();
                    sends.push(two_sided(messages.isend(Rank(to as u32), Tag(0), data))?);
                }
                let part = share.own() * piece;
                all[share.me * part..][..part].copy_from_slice(&gather(share.me));
                // Ranks that send to this rank first come ahead of it in the list.
                for from in (1..share.ranks).map(|k| (share.me + share.ranks - k) % share.ranks) {
                    let into = bytemuck::cast_slice_mut(&mut all[from * part..][..part]);
                    two_sided(messages.recv(Rank(from as u32), Tag(0), into))?;
                }
                for send in sends {
                    two_sided(send.wait())?;
                }
            }
        }
        lines.columns(&mut all);
        compute(ra, lines.operations(piece) * self.flop_ns)?;
        Ok(all)
    }

    /// Runs all transforms. Returns the result of the last transform, and the nanoseconds of one transform.
    fn transforms<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        way: &mut Way<'_, '_, A>,
        share: Share,
    ) -> Result<(Vec<Complex64>, f64)> {
        let ra = team.ra();
        let mut lines = Lines::new(share.n, false);
        let mut all = Vec::new();
        let mut ns = 0.0;
        for _ in 0..self.iterations {
            let planes = share.input();
            team.barrier()?;
            let begin = ra.now();
            all = self.forward(team, way, &mut lines, share, planes)?;
            team.barrier()?;
            ns += elapsed(ra, begin) / f64::from(self.iterations);
        }
        Ok((all, ns))
    }

    /// The inverse transform, with plain puts. Returns this rank's planes of the original data.
    fn back<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        window: &mut Window<'_, A>,
        share: Share,
        mut all: Vec<Complex64>,
    ) -> Result<Vec<Complex64>> {
        let (n, piece, own) = (share.n, share.piece(), share.own());
        let mut lines = Lines::new(n, true);
        lines.columns(&mut all);
        self.epoch(team, window, |put| {
            for (z, rows) in all.chunks(piece).enumerate() {
                put(z / own, z % own * n * n + share.me * piece, rows)?;
            }
            Ok(())
        })?;
        let mut planes = vec![Complex64::default(); share.all()];
        window.local()?.read(WindowDisp(0), &mut planes)?;
        for plane in planes.chunks_mut(n * n) {
            lines.columns(plane);
            lines.rows(plane);
        }
        let scale = 1.0 / (n * n * n) as f64;
        planes.iter_mut().for_each(|number| *number *= scale);
        Ok(planes)
    }

    /// Compares the ranks' results with the expected ones; collective.
    fn compare<A: RemoteAtomics + ?Sized>(
        team: &Team<'_, A>,
        share: Share,
        all: &[Complex64],
        back: &[Complex64],
    ) -> Result<Option<Checked>> {
        let n = share.n;
        let largest = |numbers: &mut dyn Iterator<Item = f64>| -> Result<f64> {
            // Values that are not negative have the order of their bits. A NaN is above all of them.
            let mut word = [numbers.map(f64::to_bits).max().unwrap_or(0)];
            team.allreduce(&mut word, u64::max)?;
            Ok(f64::from_bits(word[0]))
        };
        let input = share.input();
        let scale = largest(&mut all.iter().map(|number| number.norm()))?;
        let back = largest(&mut back.iter().zip(&input).map(|(back, input)| (back - input).norm()))?;
        let mut defined = 0;
        for k in 0..DEFINED {
            // The coefficient at a random index, by its definition: each rank adds up its planes.
            let place = (hash(SEED, u64::MAX - k) % (n * n * n) as u64) as usize;
            let (kz, ky, kx) = (place / (n * n), place / n % n, place % n);
            let root = |k: usize, i: usize| {
                Complex64::from_polar(1.0, -2.0 * std::f64::consts::PI * ((k * i) % n) as f64 / n as f64)
            };
            let along_x: Vec<Complex64> = (0..n).map(|x| root(kx, x)).collect();
            let mut total = Complex64::default();
            for (row, numbers) in input.chunks(n).enumerate() {
                let (z, y) = (share.me * share.own() + row / n, row % n);
                let line: Complex64 = numbers.iter().zip(&along_x).map(|(number, root)| number * root).sum();
                total += line * root(kz, z) * root(ky, y);
            }
            let owner = ky / share.own();
            let found = if share.me == owner {
                all[kz * share.piece() + (ky - owner * share.own()) * n + kx]
            } else {
                Complex64::default()
            };
            let [re, im] = sum(team, [total.re - found.re, total.im - found.im])?;
            // Also compared by their bits.
            defined = defined.max((Complex64::new(re, im).norm() / scale).to_bits());
        }
        let defined = f64::from_bits(defined);
        let compare = |parts: Vec<Vec<Complex64>>| {
            Self::compare_with_sequential(share, &parts, scale).map(|difference| Checked {
                defined,
                back,
                sequential: Some(difference),
            })
        };
        let checked = if n <= SEQUENTIAL as usize {
            at_root(team, all, share.all(), compare)?
        } else {
            (share.me == 0).then_some(Checked { defined, back, sequential: None })
        };
        if share.me == 0 && !within(defined, TOLERANCE) {
            return Err(wrong(
                "fft",
                format!("a coefficient differs from its definition by {defined:.2e} of the largest one"),
            ));
        }
        if share.me == 0 && !within(back, TOLERANCE) {
            return Err(wrong("fft", format!("the inverse transform differs from the input by {back:.2e}")));
        }
        Ok(checked)
    }

    /// The largest difference of the ranks' results from a sequential transform, as a share of `scale`.
    fn compare_with_sequential(share: Share, parts: &[Vec<Complex64>], scale: f64) -> Result<f64> {
        let (n, own) = (share.n, share.own());
        let expected = sequential(n);
        let mut largest = 0.0_f64;
        for (rank, part) in parts.iter().enumerate() {
            for (i, found) in part.iter().enumerate() {
                let (z, y, x) = (i / share.piece(), rank * own + i / n % own, i % n);
                let difference = (found - expected[(z * n + y) * n + x]).norm() / scale;
                if !within(difference, TOLERANCE) {
                    return Err(wrong(
                        "fft",
                        format!(
                            "the coefficient at z {z}, y {y}, x {x} differs from a sequential transform's by \
                             {difference:.2e} of the largest one, and may by {TOLERANCE:.0e}"
                        ),
                    ));
                }
                largest = largest.max(difference);
            }
        }
        Ok(largest)
    }

    /// Numbers of a rank.
    fn numbers(&self, ranks: u32) -> u64 {
        u64::from(self.size).pow(3) / u64::from(ranks)
    }

    /// Bytes of a message.
    fn message_bytes(&self, ranks: u32) -> u64 {
        self.numbers(ranks) / u64::from(ranks) * NUMBER
    }
}

/// The transport of pieces.
enum Way<'w, 't, A: RemoteAtomics + ?Sized> {
    Window(&'w mut Window<'t, A>),
    Messages(&'w Messages<'t, A>),
}

impl Job for Fft {
    type Out = Transformed;

    const NAME: &'static str = "fft";

    fn segment_bytes(&self, ranks: u32) -> u64 {
        let bytes = self.numbers(ranks) * NUMBER;
        // The window, the check's window, and the messages' ring.
        (4 << 20) + 2 * root_bytes(bytes) + 16 * u64::from(slot_bytes(self.message_bytes(ranks)))
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Transformed> {
        let (size, ranks) = (self.size, ra.size());
        self.fits(ranks)?;
        let share = Share { n: size as usize, ranks: ranks as usize, me: ra.rank().index() };
        let team = Team::new(ra)?;
        let bytes = self.numbers(ranks) * NUMBER;
        let (all, ns, back);
        if self.how == How::Messages {
            let messages = messages(ra, self.message_bytes(ranks))?;
            (all, ns) = self.transforms(&team, &mut Way::Messages(&messages), share)?;
            team.barrier()?;
            two_sided(messages.free(team.collectives()))?;
            let mut window = Strategies::default().numbers_window(&team, bytes)?;
            back = self.back(&team, &mut window, share, all.clone())?;
            window.free()?;
        } else {
            let mut window = self.strategies.numbers_window(&team, bytes)?;
            (all, ns, back) = self.strategies.served(&mut window, |window| {
                let (all, ns) = self.transforms(&team, &mut Way::Window(window), share)?;
                let back = self.back(&team, window, share, all.clone())?;
                Ok((all, ns, back))
            })?;
            window.free()?;
        }
        let checked = Self::compare(&team, share, &all, &back)?;
        // No rank ends before rank 0 has confirmed the result.
        team.barrier()?;
        Ok(Transformed { ns, checked })
    }
}

impl Strategies {
    /// An allocated window whose displacements are complex numbers.
    fn numbers_window<'t, A: RemoteAtomics + ?Sized>(
        &self,
        team: &'t Team<'t, A>,
        bytes: u64,
    ) -> Result<Window<'t, A>> {
        let window = Window::builder(team).config(self.config()?).disp_unit(NUMBER as u32).allocate(bytes)?;
        match window.ignored().first() {
            Some(ignored) => Err(Error::usage(ignored.to_string())),
            None => Ok(window),
        }
    }
}

impl Application for Fft {
    const TITLE: &'static str = "three-dimensional Fourier transform";

    fn strategies(&self) -> &Strategies {
        &self.strategies
    }

    fn check(&self, world: &Ranks) -> Result<()> {
        self.fits(world.ranks)
    }

    fn time(&self, ran: &Ran<Transformed>) -> f64 {
        ran.ranks.iter().map(|transformed| transformed.ns).fold(0.0, f64::max)
    }

    fn table(&self, ran: &Ran<Transformed>) -> Table {
        let mut table = Table::new(Self::TITLE, ["what", "value"]);
        let ns = self.time(ran);
        let Some(first) = ran.ranks.first() else { return table };
        let n = f64::from(self.size);
        table.row([
            Value::from("cube"),
            Value::from(format!("{}³ complex numbers, {} ranks", self.size, ran.ranks.len())),
        ]);
        table.row([Value::from("time of a transform"), Value::Time(ns)]);
        table.row([Value::from("floating-point operations"), Value::Rate(15.0 * n.powi(3) * n.log2() / ns * 1e9)]);
        if let Some(Checked { defined, back, sequential }) = first.checked {
            let shown = |difference: f64| Value::from(format!("{difference:.2e}, up to {TOLERANCE:.0e} is rounding"));
            table.row([Value::from("difference of 4 coefficients from their definition"), shown(defined)]);
            table.row([Value::from("difference of the inverse transform from the input"), shown(back)]);
            let compared = sequential.map_or_else(|| Value::from(format!("not compared above {SEQUENTIAL}³")), shown);
            table.row([Value::from("difference from a sequential transform"), compared]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use rmalab_atomics::{Mapped, World};

    use super::super::support::defaults;
    use super::*;
    use rmalab_job as job;

    fn small() -> Fft {
        Fft { size: 12, iterations: 2, ..defaults() }
    }

    #[test]
    fn every_transport_gives_the_sequential_result() {
        let stop = AtomicBool::new(false);
        for (how, sync) in [
            (How::Overlapped, Sync::Fence),
            (How::Overlapped, Sync::Pscw),
            (How::Overlapped, Sync::LockAll),
            (How::Bulk, Sync::Fence),
            (How::Messages, Sync::Fence),
        ] {
            for ranks in [1, 2, 3, 4] {
                let ran = job::run(&Fft { how, sync, ..small() }, &Ranks::threads(ranks), &stop).unwrap();
                let checked = ran.ranks[0].checked.unwrap();
                assert!(checked.sequential.is_some() && checked.defined <= TOLERANCE, "{checked:?}");
            }
        }
    }

    #[test]
    fn simulated_ranks_transform_in_virtual_time() {
        let stop = AtomicBool::new(false);
        let mut times = Vec::new();
        for how in [How::Overlapped, How::Bulk, How::Messages] {
            let job = Fft { how, size: 64, iterations: 1, ..small() };
            let ran = job::run(&job, &Ranks::simulated("gemini", 4).ranks_per_node(1), &stop).unwrap();
            assert!(ran.ranks[0].checked.unwrap().sequential.is_some());
            // 64 planes of 128 lines, and 64 × 64 lines, of 1,920 operations each, by 4 ranks.
            assert!(job.time(&ran) > 3.0 * 64.0 * 64.0 * 1920.0 / 4.0);
            times.push(job.time(&ran));
        }
        // With so few ranks, bulk puts and messages take about the same.
        assert!(times[0] < times[1] && times[0] < times[2], "overlapped, bulk, messages: {times:?}");
    }

    /// Transforms with an error at one rank, and returns the check's result.
    fn broken(spoil: impl Fn(&mut Vec<Complex64>, &mut Vec<Complex64>) + std::marker::Sync + Copy) -> String {
        let job = small();
        let run = |ra: &Mapped| -> Result<String> {
            let team = Team::new(ra)?;
            let share = Share { n: 12, ranks: 2, me: ra.rank().index() };
            let mut window = Strategies::default().numbers_window(&team, job.numbers(2) * NUMBER)?;
            let mut lines = Lines::new(12, false);
            let mut all = job.forward(&team, &mut Way::Window(&mut window), &mut lines, share, share.input())?;
            let mut back = job.back(&team, &mut window, share, all.clone())?;
            if share.me == 0 {
                spoil(&mut all, &mut back);
            }
            let checked = Fft::compare(&team, share, &all, &back);
            Ok(checked.map_or_else(|error| error.to_string(), |_| String::new()))
        };
        // Rank 1 waits for rank 0 in vain if the check fails, as in a world that then ends.
        let mut first = String::new();
        let told = std::sync::Mutex::new(&mut first);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            World::threads(2).run(|ra| {
                let said = run(ra).unwrap_or_else(|error| error.to_string());
                if ra.rank() == Rank(0) {
                    let failed = !said.is_empty();
                    **told.lock().unwrap() = said;
                    assert!(!failed, "the check has failed");
                }
            })
        }));
        assert_eq!(ended.is_err(), !first.is_empty());
        first
    }

    #[test]
    fn wrong_results_are_detected() {
        assert_eq!(broken(|_, _| ()), "");
        let coefficient = broken(|all, _| all[5].re += 1e-9);
        assert!(coefficient.contains("z 0, y 0, x 5 differs"), "{coefficient}");
        let back = broken(|_, back| back[7].im += 1e-9);
        assert!(back.contains("the inverse transform differs"), "{back}");
        let nothing = broken(|all, _| all[5].re = f64::NAN);
        assert!(nothing.contains("NaN"), "{nothing}");
    }

    #[test]
    fn large_cubes_are_compared_with_the_definition() {
        let stop = AtomicBool::new(false);
        let job = Fft { size: 66, iterations: 1, ..small() };
        let checked = job::run(&job, &Ranks::threads(2), &stop).unwrap().ranks[0].checked.unwrap();
        assert!(checked.sequential.is_none() && checked.defined > 0.0 && checked.defined <= TOLERANCE, "{checked:?}");
    }

    #[test]
    fn sizes_that_are_not_multiples_are_refused() {
        let error = job::run(&small(), &Ranks::threads(5), &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("a multiple of the ranks"), "{error}");
    }
}
