//! A five-point Gauss-Seidel solver of Poisson's equation on a square, distributed by rows.
//!
//! # Source
//!
//! H. Zhou, K. Idrees, J. Gracia, Leveraging MPI-3 shared-memory extensions for efficient PGAS runtime systems, Euro-Par
//! 2015, section 4.2. An n × n grid of 4-byte numbers is distributed evenly by rows. Ranks exchange halo rows by
//! blocking puts, until the solution has converged.
//!
//! # Order
//!
//! The paper does not give the order of updates across ranks. Here it is red-black: all points whose row and
//! column have an even sum, then the others. A point depends only on points of the other colour. So the result is the
//! same for any number of ranks, to the bit, and equals the result of a sequential run. After a half-sweep the ranks
//! exchange the points of its colour in the outermost rows. So the halo has the paper's bytes, 4 n (2 p - 2) in each
//! iteration, in twice as many messages.
//!
//! # Check
//!
//! Rank 0 gathers the grid and compares each point, and the number of iterations, with a sequential run. It does so in
//! each run of up to 2^32 updates of points.

use clap::Args;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::Team;
use serde::{Deserialize, Serialize};

use super::halo::{self, Exchange, How, Neighbour, Plan, Sync, how_fits};
use super::support::{at_root, compute, root_bytes, signed, wrong};
use super::{Application, Strategies};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Table, Value};

/// The largest number of updates in a checked run.
const CHECKED: u64 = 1 << 32;

/// Solve Poisson's equation with a five-point Gauss-Seidel solver.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stencil {
    /// Rows and columns of the grid
    #[arg(long, value_name = "POINTS", default_value = "64")]
    pub size: u32,
    /// Largest number of iterations
    #[arg(long, value_name = "NUMBER", default_value = "20000")]
    pub iterations: u32,
    /// Change of a point in an iteration at convergence; 0 for all iterations
    #[arg(long, value_name = "CHANGE", default_value = "0.0001")]
    pub tolerance: f32,
    /// Iterations between two checks of the largest change
    #[arg(long, value_name = "NUMBER", default_value = "50")]
    pub every: u32,
    /// Transport of halo rows
    #[arg(long, value_enum, default_value_t)]
    pub how: How,
    /// Synchronization of neighbours
    #[arg(long, value_enum, default_value_t)]
    pub sync: Sync,
    /// Computing time of a simulated rank for an update of a point, in nanoseconds
    #[arg(long, value_name = "NS", default_value = "2")]
    pub point_ns: f64,
    /// Strategies of the windows
    #[command(flatten)]
    pub strategies: Strategies,
}

/// The result of a rank.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Solved {
    /// Nanoseconds of the solver: computing and halo exchange.
    pub ns: f64,
    /// Iterations.
    pub iterations: u32,
    /// The largest change of a point in the last check.
    pub change: f32,
    /// True if the result was compared with a sequential run; at rank 0.
    pub checked: bool,
}

/// A rank's rows, between a halo row at either end; each row has a boundary point, which is 0, at either end.
struct Rows {
    /// Columns inside the boundary.
    size: usize,
    /// The number of the first local row.
    first: usize,
    /// The number of local rows.
    count: usize,
    points: Vec<f32>,
}

/// The right-hand side of a point's equation, times the squared distance of points: a quarter of a number between
/// -1 and 1 that depends on the position, so that no two points can be exchanged unnoticed.
fn source(size: usize, row: usize, column: usize) -> f32 {
    signed(2015, (row * size + column) as u64) as f32 / 4.0
}

impl Rows {
    fn new(size: usize, first: usize, count: usize) -> Rows {
        Rows { size, first, count, points: vec![0.0; (count + 2) * (size + 2)] }
    }

    fn at(&self, row: usize, column: usize) -> usize {
        row * (self.size + 2) + column
    }

    /// The first column of a colour in a row, with halo numbering: row 1 is the first local row.
    fn start(&self, row: usize, colour: usize) -> usize {
        // Globally it is row first + row - 1, and column 1 is number 0.
        1 + (self.first + row + 1 + colour) % 2
    }

    /// Updates the points of a colour; returns the largest change.
    fn sweep(&mut self, colour: usize) -> f32 {
        let pitch = self.size + 2;
        let mut largest = 0.0_f32;
        for row in 1..=self.count {
            for column in (self.start(row, colour)..=self.size).step_by(2) {
                let at = self.at(row, column);
                let points = &self.points;
                let sum = points[at - pitch] + points[at + pitch] + points[at - 1] + points[at + 1];
                let new = 0.25 * (sum + source(self.size, self.first + row - 1, column - 1));
                largest = largest.max((new - points[at]).abs());
                self.points[at] = new;
            }
        }
        largest
    }

    /// The points of a colour in a row.
    fn pick(&self, row: usize, colour: usize, into: &mut Vec<f32>) {
        into.clear();
        into.extend((self.start(row, colour)..=self.size).step_by(2).map(|column| self.points[self.at(row, column)]));
    }

    /// Writes points of a colour into a row.
    fn place(&mut self, row: usize, colour: usize, from: &[f32]) {
        for (column, &point) in (self.start(row, colour)..=self.size).step_by(2).zip(from) {
            let at = self.at(row, column);
            self.points[at] = point;
        }
    }

    /// The number of points of a colour in a row.
    fn number(&self, row: usize, colour: usize) -> usize {
        (self.start(row, colour)..=self.size).step_by(2).count()
    }

    /// The local rows without the boundary.
    fn inner(&self) -> Vec<f32> {
        (1..=self.count).flat_map(|row| &self.points[self.at(row, 1)..=self.at(row, self.size)]).copied().collect()
    }
}

impl Stencil {
    /// Checks that it can run with these options on that many ranks.
    fn fits(&self, ranks: u32) -> Result<()> {
        if self.size < ranks || self.size > 1 << 16 || self.every == 0 {
            return Err(Error::usage(format!(
                "stencil: {} rows for {ranks} ranks, and a check every {} iterations: each rank needs a row, there are \
                 at most 65,536 rows, and --every is at least 1",
                self.size, self.every
            )));
        }
        Ok(())
    }

    /// The first row of a rank.
    fn first(&self, rank: u32, ranks: u32) -> usize {
        (u64::from(self.size) * u64::from(rank) / u64::from(ranks)) as usize
    }

    fn looks(&self, iteration: u32) -> bool {
        iteration.is_multiple_of(self.every) || iteration == self.iterations
    }

    /// The grid and the number of iterations of a sequential run.
    fn sequential(&self) -> (Vec<f32>, u32) {
        let size = self.size as usize;
        let mut rows = Rows::new(size, 0, size);
        for iteration in 1..=self.iterations {
            let change = rows.sweep(0).max(rows.sweep(1));
            if self.looks(iteration) && change <= self.tolerance {
                return (rows.inner(), iteration);
            }
        }
        (rows.inner(), self.iterations)
    }

    /// Compares a grid with the grid of a sequential run.
    fn compare(&self, grid: &[f32], iterations: u32) -> Result<()> {
        let (expected, needed) = self.sequential();
        if iterations != needed {
            return Err(wrong("stencil", format!("{iterations} iterations, but a sequential run takes {needed}")));
        }
        let size = self.size as usize;
        match grid.iter().zip(&expected).position(|(point, expected)| point.to_bits() != expected.to_bits()) {
            Some(at) => Err(wrong(
                "stencil",
                format!(
                    "row {}, column {} is {}, but {} in a sequential run, after {iterations} iterations",
                    at / size,
                    at % size,
                    grid[at],
                    expected[at]
                ),
            )),
            None if grid.len() != expected.len() => {
                Err(wrong("stencil", format!("{} points instead of {}", grid.len(), expected.len())))
            }
            None => Ok(()),
        }
    }

    /// Solves this rank's part; returns the rows and the result.
    fn solve<A: RemoteAtomics + ?Sized>(&self, team: &Team<'_, A>) -> Result<(Rows, Solved)> {
        let (me, ranks) = (team.rank().0, team.size());
        let [first, end] = [me, me + 1].map(|rank| self.first(rank, ranks));
        let mut rows = Rows::new(self.size as usize, first, end - first);
        let neighbour = |rank: Option<u32>, slot| {
            rank.filter(|&rank| rank < ranks).map(|rank| Neighbour { rank: Rank(rank), slot })
        };
        let neighbours = vec![neighbour(me.checked_sub(1), 1), neighbour(Some(me + 1), 0)];
        let plan = Plan { neighbours, bytes: self.row_bytes() };
        let solved = plan
            .run(team, (self.how, self.sync, &self.strategies), |exchange| self.iterate(team, &mut rows, exchange))?;
        Ok((rows, solved))
    }

    /// The iterations, with any exchange of the halo.
    fn iterate<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        rows: &mut Rows,
        exchange: &mut Exchange<'_, f32>,
    ) -> Result<Solved> {
        let (ra, me, ranks) = (team.ra(), team.rank().0, team.size());
        let last = rows.count;
        let mut out = [Vec::new(), Vec::new()];
        let mut into = [Vec::new(), Vec::new()];
        let mut largest = 0.0;
        let mut iterations = 0;
        team.barrier()?;
        let begin = ra.now();
        for iteration in 1..=self.iterations {
            iterations = iteration;
            let mut change = 0.0_f32;
            for colour in 0..2 {
                change = change.max(rows.sweep(colour));
                compute(ra, (rows.count * rows.size) as f64 / 2.0 * self.point_ns)?;
                rows.pick(1, colour, &mut out[0]);
                rows.pick(last, colour, &mut out[1]);
                into[0].resize(rows.number(0, colour), 0.0);
                into[1].resize(rows.number(last + 1, colour), 0.0);
                exchange(&out, &mut into)?;
                if me > 0 {
                    rows.place(0, colour, &into[0]);
                }
                if me + 1 < ranks {
                    rows.place(last + 1, colour, &into[1]);
                }
            }
            if self.looks(iteration) {
                // Changes are not negative, so they have the order of their bits.
                let mut word = [u64::from(change.to_bits())];
                team.allreduce(&mut word, u64::max)?;
                largest = f32::from_bits(word[0] as u32);
                if largest <= self.tolerance {
                    break;
                }
            }
        }
        team.barrier()?;
        Ok(Solved { ns: elapsed(ra, begin), iterations, change: largest, checked: false })
    }

    /// The largest number of bytes of one colour's points in a row.
    fn row_bytes(&self) -> u64 {
        (u64::from(self.size).div_ceil(2) * 4).next_multiple_of(8)
    }

    /// The largest number of points of a rank.
    fn part(&self, ranks: u32) -> usize {
        (self.size.div_ceil(ranks) as usize) * self.size as usize
    }
}

impl Job for Stencil {
    type Out = Solved;

    const NAME: &'static str = "stencil";

    fn segment_bytes(&self, ranks: u32) -> u64 {
        (4 << 20) + halo::segment_bytes(2, self.row_bytes()) + root_bytes(4 * self.part(ranks) as u64)
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Solved> {
        self.fits(ra.size())?;
        let team = Team::new(ra)?;
        let (rows, mut solved) = self.solve(&team)?;
        let updates = u64::from(self.size) * u64::from(self.size) * u64::from(solved.iterations);
        if updates <= CHECKED {
            let iterations = solved.iterations;
            let look = |parts: Vec<Vec<f32>>| self.compare(&parts.concat(), iterations);
            solved.checked = at_root(&team, &rows.inner(), self.part(ra.size()), look)?.is_some();
        }
        Ok(solved)
    }
}

impl Application for Stencil {
    const TITLE: &'static str = "five-point Gauss-Seidel stencil";

    fn strategies(&self) -> &Strategies {
        &self.strategies
    }

    fn check(&self, world: &Ranks) -> Result<()> {
        how_fits(self.how, world)?;
        self.fits(world.ranks)
    }

    fn time(&self, ran: &Ran<Solved>) -> f64 {
        ran.ranks.iter().map(|solved| solved.ns).fold(0.0, f64::max)
    }

    fn table(&self, ran: &Ran<Solved>) -> Table {
        let mut table = Table::new(Self::TITLE, ["what", "value"]);
        let ns = self.time(ran);
        let Some(first) = ran.ranks.first() else { return table };
        let (points, iterations) = (u64::from(self.size) * u64::from(self.size), first.iterations);
        table.row([Value::from("grid"), Value::from(format!("{0} × {0}, {1} ranks", self.size, ran.ranks.len()))]);
        table.row([Value::from("iterations"), Value::Count(iterations.into())]);
        table.row([Value::from("largest change in the last"), Value::from(format!("{:.2e}", first.change))]);
        table.row([Value::from("time"), Value::Time(ns)]);
        table.row([Value::from("time of an iteration"), Value::Time(ns / f64::from(iterations.max(1)))]);
        let updates = points as f64 * f64::from(iterations);
        table.row([Value::from("updates of points"), Value::Rate(updates / ns * 1e9)]);
        let check = if first.checked {
            "each point and the number of iterations as in a sequential run, to the bit"
        } else {
            "not compared with a sequential run, which would take too long"
        };
        table.row([Value::from("check"), Value::from(check)]);
        table
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::support::defaults;
    use super::*;
    use rmalab_job as job;

    fn small() -> Stencil {
        Stencil { size: 13, every: 3, ..defaults() }
    }

    #[test]
    fn every_number_of_ranks_gives_the_sequential_solution() {
        let stop = AtomicBool::new(false);
        for (how, sync) in [
            (How::Window, Sync::Flags),
            (How::Window, Sync::Fence),
            (How::Window, Sync::Pscw),
            (How::Dart, Sync::Flags),
            (How::Messages, Sync::Flags),
        ] {
            for ranks in [1, 2, 3, 5] {
                let job = Stencil { how, sync, ..small() };
                let ran = job::run(&job, &Ranks::threads(ranks), &stop).unwrap();
                assert!(ran.ranks[0].checked && ran.ranks[0].change <= job.tolerance, "{ran:?}");
                assert!(ran.ranks[0].iterations > 20);
            }
        }
    }

    #[test]
    fn simulated_ranks_find_it_in_virtual_time() {
        let stop = AtomicBool::new(false);
        for (how, sync) in [(How::Window, Sync::Flags), (How::Window, Sync::Fence), (How::Messages, Sync::Flags)] {
            let job = Stencil { how, sync, ..small() };
            let world = Ranks::simulated("aries", 5).ranks_per_node(2);
            let ran = job::run(&job, &world, &stop).unwrap();
            assert!(ran.ranks[0].checked);
            let computed = f64::from(ran.ranks[0].iterations) * 2.0 * 13.0 * job.point_ns;
            assert!(job.time(&ran) > computed, "{how:?}: it has computed for {computed} ns");
        }
    }

    #[test]
    fn a_wrong_point_is_detected() {
        let job = small();
        let (mut grid, iterations) = job.sequential();
        job.compare(&grid, iterations).unwrap();
        assert!(job.compare(&grid, iterations + 3).unwrap_err().to_string().contains("a sequential run takes"));
        grid[13 * 4 + 7] += 1e-6;
        assert!(job.compare(&grid, iterations).unwrap_err().to_string().contains("row 4, column 7 is"));
        assert!(job.compare(&grid[..20], iterations).unwrap_err().to_string().contains("20 points"));
    }

    /// The sequential run solves the equation: afterwards every point is close to a quarter of its neighbours' sum.
    #[test]
    fn the_solution_solves_the_equation() {
        let job = small();
        let (grid, _) = job.sequential();
        let at = |row: i64, column: i64| {
            let inside = (0..13).contains(&row) && (0..13).contains(&column);
            if inside { grid[(row * 13 + column) as usize] } else { 0.0 }
        };
        for row in 0..13 {
            for column in 0..13 {
                let sum = at(row - 1, column) + at(row + 1, column) + at(row, column - 1) + at(row, column + 1);
                let rest = sum + source(13, row as usize, column as usize) - 4.0 * at(row, column);
                assert!(rest.abs() < 10.0 * job.tolerance, "{row}, {column}: {rest}");
            }
        }
    }

    #[test]
    fn missing_exchanges_are_detected() {
        let job = Stencil { iterations: 30, tolerance: 0.0, ..small() };
        let run = |ra: &rmalab_atomics::Mapped| {
            let team = Team::new(ra)?;
            let [first, end] = [ra.rank().0, ra.rank().0 + 1].map(|rank| job.first(rank, 2));
            let mut rows = Rows::new(13, first, end - first);
            let solved = job.iterate(&team, &mut rows, &mut |_, _| Ok(()))?;
            at_root(&team, &rows.inner(), job.part(2), |parts| Ok(job.compare(&parts.concat(), solved.iterations)))
        };
        let seen = rmalab_atomics::World::threads(2).run(run).unwrap().remove(0).unwrap().unwrap();
        assert!(seen.unwrap_err().to_string().contains("in a sequential run, after 30 iterations"));
    }

    #[test]
    fn more_ranks_than_rows_are_refused() {
        let error = job::run(&small(), &Ranks::threads(14), &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("13 rows for 14 ranks"), "{error}");
    }
}
