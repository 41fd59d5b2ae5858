//! Conjugate gradients on a periodic four-dimensional lattice, in the pattern of MILC.
//!
//! # Source
//!
//! R. Gerstenberger, M. Besta, T. Hoefler, Enabling highly-scalable remote memory access programming with MPI-3 one
//! sided, SC'13: MILC, lattice quantum chromodynamics, with its halo exchange by puts (after H. Shan and others,
//! PGAS'12). In MILC's pattern each rank has a local lattice. It exchanges faces with 8 neighbours for each application
//! of the operator, and makes two global sums for each iteration.
//!
//! # Equation
//!
//! A site has a vector of three complex numbers, and a link to each of 8 neighbours, which multiplies by a phase:
//!
//! ```text
//!   (A f)(x) = (m² + 8) f(x) − Σ_μ [ u_μ(x) f(x + μ) + u_μ(x − μ)* f(x − μ) ]
//! ```
//!
//! the covariant Laplacian with a mass. It is hermitian with eigenvalues from m² to m² + 16, so conjugate gradients
//! solve A f = b. Phases and b are random numbers from a seed and the global number of the site. So the problem does
//! not depend on the distribution of the lattice. MILC has matrices of SU(3) instead of phases, and a staggered
//! operator. That is more arithmetic for each site, but the same exchange.
//!
//! # Check
//!
//! Rank 0 gathers the solution of each run, and computes its residual by the formula above on the whole lattice. Up
//! to 65,536 sites it also solves the problem sequentially, and compares the solutions. This code is separate. The
//! order of sums and the number of iterations may differ. So the solutions may differ by 2 (m² + 16) / m² times the
//! tolerance, relative to the largest number of the solution.

use clap::Args;
use num_complex::Complex64;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::Team;
use serde::{Deserialize, Serialize};

use super::halo::{self, Exchange, How, Neighbour, Plan, Sync, how_fits};
use super::support::{at_root, compute, root_bytes, signed, sum, within, wrong};
use super::{Application, Strategies};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Table, Value};

/// The vector of a site.
type Vector = [Complex64; 3];

/// Bytes of a vector.
const VECTOR: u64 = size_of::<Vector>() as u64;

/// The number of sites up to which a run is compared with a sequential one.
const SEQUENTIAL: u64 = 1 << 16;

/// The seed of the random numbers.
const SEED: u64 = 2013;

/// Solve an equation by conjugate gradients on a four-dimensional lattice.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lattice {
    /// Sites of a rank's part, in each of the four directions
    #[arg(long, value_name = "X,Y,Z,T", value_delimiter = ',', num_args = 4, default_values_t = [4, 4, 4, 8])]
    pub local: Vec<u32>,
    /// The mass, which determines the speed of convergence
    #[arg(long, value_name = "MASS", default_value = "1")]
    pub mass: f64,
    /// Relative residual at convergence, as a share of the right-hand side
    #[arg(long, value_name = "RESIDUAL", default_value = "0.00000001")]
    pub tolerance: f64,
    /// Largest number of iterations; it is an error not to converge
    #[arg(long, value_name = "NUMBER", default_value = "1000")]
    pub iterations: u32,
    /// Transport of faces
    #[arg(long, value_enum, default_value_t)]
    pub how: How,
    /// Synchronization of neighbours
    #[arg(long, value_enum, default_value_t)]
    pub sync: Sync,
    /// Computing time of a simulated rank for a site in an iteration, in nanoseconds
    #[arg(long, value_name = "NS", default_value = "250")]
    pub site_ns: f64,
    /// Strategies of the windows
    #[command(flatten)]
    pub strategies: Strategies,
}

/// The result of a rank.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Solved {
    /// Nanoseconds of the solver.
    pub ns: f64,
    /// Nanoseconds of the solver in exchanges of faces.
    pub exchange_ns: f64,
    /// Iterations.
    pub iterations: u32,
    /// The result of the check; at rank 0.
    pub checked: Option<Checked>,
}

/// The result of the check.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Checked {
    /// The residual, as a share of the right-hand side.
    pub residual: f64,
    /// The largest difference from a sequential solution, as a share of the solution's largest number; if compared.
    pub difference: Option<f64>,
}

/// A number of ranks as a product of four factors, as equal as its prime factors allow.
fn factors(ranks: u32) -> [u32; 4] {
    let mut rest = ranks;
    let mut primes = Vec::new();
    let mut prime = 2;
    while rest > 1 {
        while rest.is_multiple_of(prime) {
            primes.push(prime);
            rest /= prime;
        }
        prime += 1;
    }
    let mut factors = [1; 4];
    for &prime in primes.iter().rev() {
        // The last of the smallest: later directions have more sites by default.
        let smallest = (0..4).rev().min_by_key(|&direction| factors[direction]).unwrap_or(0);
        factors[smallest] *= prime;
    }
    factors
}

/// A box in four dimensions with numbered sites, the first direction the fastest.
#[derive(Clone, Copy, Debug)]
struct Grid([u32; 4]);

impl Grid {
    fn len(self) -> usize {
        self.0.iter().map(|&sites| sites as usize).product()
    }

    fn place(self, number: usize) -> [u32; 4] {
        let mut rest = number;
        self.0.map(|sites| {
            let place = rest % sites as usize;
            rest /= sites as usize;
            place as u32
        })
    }

    fn number(self, place: [u32; 4]) -> usize {
        (0..4).rev().fold(0, |number, direction| number * self.0[direction] as usize + place[direction] as usize)
    }

    /// The neighbour of a site, with periodic boundaries.
    fn next(self, mut place: [u32; 4], direction: usize, forward: bool) -> [u32; 4] {
        let sites = self.0[direction];
        place[direction] = (place[direction] + if forward { 1 } else { sites - 1 }) % sites;
        place
    }
}

/// The phase of the link from a site, by its global number, in a direction.
fn phase(site: usize, direction: usize) -> Complex64 {
    Complex64::from_polar(1.0, std::f64::consts::PI * signed(SEED, (site * 4 + direction) as u64))
}

/// The right-hand side at a site, by its global number.
fn source(site: usize) -> Vector {
    let number = |n: usize| signed(SEED + 1, (site * 6 + n) as u64);
    [0, 2, 4].map(|n| Complex64::new(number(n), number(n + 1)))
}

fn norm(vector: &Vector) -> f64 {
    vector.iter().map(Complex64::norm_sqr).sum()
}

/// The real part of the product of two vectors.
fn product(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.re * b.re + a.im * b.im).sum()
}

/// a + factor b
fn plus(a: &Vector, factor: f64, b: &Vector) -> Vector {
    std::array::from_fn(|i| a[i] + b[i] * factor)
}

/// A rank's part of the lattice.
struct Part {
    local: Grid,
    /// The indices of each site's neighbours in the field. The field has the local sites, then the 8 received faces.
    neighbours: Vec<[u32; 8]>,
    /// Their phases.
    links: Vec<[Complex64; 8]>,
    /// The sites of the 8 faces to send.
    faces: [Vec<u32>; 8],
    /// The start of each received face.
    ghosts: [usize; 9],
    /// The sites' global numbers.
    global: Vec<usize>,
}

impl Part {
    /// Face 2 μ is in the direction μ forwards, face 2 μ + 1 backwards.
    fn new(ranks: Grid, local: Grid, rank: usize) -> Part {
        let whole = Grid(std::array::from_fn(|i| ranks.0[i] * local.0[i]));
        let here = ranks.place(rank);
        let sites = local.len();
        let at = |site| {
            let place = local.place(site);
            std::array::from_fn(|i| here[i] * local.0[i] + place[i])
        };
        let on_face = |site: usize, face: usize| {
            let place = local.place(site)[face / 2];
            place == if face.is_multiple_of(2) { local.0[face / 2] - 1 } else { 0 }
        };
        let faces: [Vec<u32>; 8] = std::array::from_fn(|face| {
            (0..sites).filter(|&site| on_face(site, face)).map(|site| site as u32).collect()
        });
        let mut ghosts = [sites; 9];
        for (face, sites) in faces.iter().enumerate() {
            ghosts[face + 1] = ghosts[face] + sites.len();
        }
        let mut seen = [0; 8];
        let (mut neighbours, mut links) = (Vec::new(), Vec::new());
        for site in 0..sites {
            let place: [u32; 4] = at(site);
            neighbours.push(std::array::from_fn(|face| {
                if on_face(site, face) {
                    // The sender numbers its opposite face in the same order.
                    seen[face] += 1;
                    (ghosts[face] + seen[face] - 1) as u32
                } else {
                    local.number(local.next(local.place(site), face / 2, face.is_multiple_of(2))) as u32
                }
            }));
            links.push(std::array::from_fn(|face| {
                let direction = face / 2;
                if face.is_multiple_of(2) {
                    phase(whole.number(place), direction)
                } else {
                    phase(whole.number(whole.next(place, direction, false)), direction).conj()
                }
            }));
        }
        Part {
            local,
            neighbours,
            links,
            faces,
            ghosts,
            global: (0..sites).map(|site| whole.number(at(site))).collect(),
        }
    }

    /// Applies the operator to a field with its ghosts.
    fn apply(&self, mass: f64, field: &[Vector], result: &mut [Vector]) {
        for (site, result) in result.iter_mut().enumerate() {
            let mut all = field[site].map(|number| number * (mass * mass + 8.0));
            for (&neighbour, link) in self.neighbours[site].iter().zip(&self.links[site]) {
                for (all, number) in all.iter_mut().zip(field[neighbour as usize]) {
                    *all -= link * number;
                }
            }
            *result = all;
        }
    }
}

/// The whole undistributed problem, as the reference for the ranks' results.
struct Whole {
    grid: Grid,
    phases: Vec<[Complex64; 4]>,
    mass: f64,
}

impl Whole {
    fn new(grid: Grid, mass: f64) -> Whole {
        let phases = (0..grid.len()).map(|site| std::array::from_fn(|direction| phase(site, direction))).collect();
        Whole { grid, phases, mass }
    }

    /// The operator, by its formula.
    fn apply(&self, field: &[Vector]) -> Vec<Vector> {
        let at = |site: usize| {
            let place = self.grid.place(site);
            std::array::from_fn(|i| {
                let mut number = (self.mass * self.mass + 8.0) * field[site][i];
                for direction in 0..4 {
                    let [ahead, behind] =
                        [true, false].map(|forward| self.grid.number(self.grid.next(place, direction, forward)));
                    number -= self.phases[site][direction] * field[ahead][i];
                    number -= self.phases[behind][direction].conj() * field[behind][i];
                }
                number
            })
        };
        (0..field.len()).map(at).collect()
    }

    /// |b - A f| / |b|
    fn residual(&self, field: &[Vector]) -> f64 {
        let (mut rest, mut all) = (0.0, 0.0);
        for (site, result) in self.apply(field).iter().enumerate() {
            let source = source(site);
            rest += norm(&plus(&source, -1.0, result));
            all += norm(&source);
        }
        (rest / all).sqrt()
    }

    /// The solution by conjugate gradients.
    fn solve(&self, tolerance: f64, iterations: u32) -> Vec<Vector> {
        let mut rest: Vec<Vector> = (0..self.grid.len()).map(source).collect();
        let mut field = vec![Vector::default(); rest.len()];
        let mut way = rest.clone();
        let mut now: f64 = rest.iter().map(norm).sum();
        let goal = now * tolerance * tolerance;
        for _ in 0..iterations {
            if now <= goal {
                break;
            }
            let applied = self.apply(&way);
            let step = now / way.iter().zip(&applied).map(|(a, b)| product(a, b)).sum::<f64>();
            for (field, way) in field.iter_mut().zip(&way) {
                *field = plus(field, step, way);
            }
            for (rest, applied) in rest.iter_mut().zip(&applied) {
                *rest = plus(rest, -step, applied);
            }
            let before = std::mem::replace(&mut now, rest.iter().map(norm).sum());
            for (way, rest) in way.iter_mut().zip(&rest) {
                *way = plus(rest, now / before, way);
            }
        }
        field
    }
}

impl Lattice {
    /// Checks that it can run with these options on that many ranks.
    fn fits(&self, _ranks: u32) -> Result<()> {
        self.local()?;
        let positive = |number: f64| number > 0.0;
        if !positive(self.mass) || !positive(self.tolerance) {
            return Err(Error::usage(format!(
                "lattice: --mass {} --tolerance {}: both must be above 0",
                self.mass, self.tolerance
            )));
        }
        Ok(())
    }

    fn local(&self) -> Result<Grid> {
        match <[u32; 4]>::try_from(&self.local[..]) {
            Ok(sites) if sites.iter().all(|&sites| (1..=1024).contains(&sites)) && Grid(sites).len() <= 1 << 24 => {
                Ok(Grid(sites))
            }
            _ => Err(Error::usage(format!(
                "lattice: --local {:?}: four numbers of sites, each from 1 to 1024, and at most 16,777,216 sites",
                self.local
            ))),
        }
    }

    /// Bytes of the largest face.
    fn face_bytes(&self) -> u64 {
        let sites: u64 = self.local.iter().map(|&sites| u64::from(sites)).product();
        let least = self.local.iter().copied().min().unwrap_or(1).max(1);
        sites / u64::from(least) * VECTOR
    }

    fn sites(&self) -> u64 {
        self.local.iter().map(|&sites| u64::from(sites)).product()
    }

    /// Solves this rank's part; returns the field and the result.
    fn solve<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        part: &Part,
        ranks: Grid,
    ) -> Result<(Vec<Vector>, Solved)> {
        let here = ranks.place(team.rank().index());
        let neighbours = (0..8).map(|face| {
            let rank = ranks.number(ranks.next(here, face / 2, face.is_multiple_of(2)));
            Some(Neighbour { rank: Rank(rank as u32), slot: face ^ 1 })
        });
        let plan = Plan { neighbours: neighbours.collect(), bytes: self.face_bytes() };
        plan.run(team, (self.how, self.sync, &self.strategies), |exchange| self.iterate(team, part, exchange))
    }

    /// The iterations, with any exchange of the faces.
    fn iterate<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        part: &Part,
        exchange: &mut Exchange<'_, Vector>,
    ) -> Result<(Vec<Vector>, Solved)> {
        let ra = team.ra();
        let sites = part.local.len();
        let mut field = vec![Vector::default(); sites];
        let mut rest: Vec<Vector> = part.global.iter().map(|&site| source(site)).collect();
        let mut way = rest.clone();
        way.resize(part.ghosts[8], Vector::default());
        let mut applied = vec![Vector::default(); sites];
        let mut out: Vec<Vec<Vector>> = vec![Vec::new(); 8];
        let mut into: Vec<Vec<Vector>> = part.faces.iter().map(|face| vec![Vector::default(); face.len()]).collect();

        team.barrier()?;
        let begin = ra.now();
        let mut exchange_ns = 0.0;
        let [mut now] = sum(team, [rest.iter().map(norm).sum()])?;
        let goal = now * self.tolerance * self.tolerance;
        let mut iterations = 0;
        while now > goal {
            if iterations == self.iterations {
                return Err(Error::Ranks(format!(
                    "lattice: a residual of {:.1e} after {iterations} iterations instead of {:.1e}: raise \
                     --iterations or --mass",
                    (now / goal).sqrt() * self.tolerance,
                    self.tolerance
                )));
            }
            iterations += 1;
            for (out, face) in out.iter_mut().zip(&part.faces) {
                out.clear();
                out.extend(face.iter().map(|&site| way[site as usize]));
            }
            let before = ra.now();
            exchange(&out, &mut into)?;
            exchange_ns += elapsed(ra, before);
            for (face, into) in into.iter().enumerate() {
                way[part.ghosts[face]..part.ghosts[face + 1]].copy_from_slice(into);
            }
            part.apply(self.mass, &way, &mut applied);
            compute(ra, sites as f64 * self.site_ns)?;
            let [along] = sum(team, [way.iter().zip(&applied).map(|(a, b)| product(a, b)).sum()])?;
            let step = now / along;
            for (field, way) in field.iter_mut().zip(&way) {
                *field = plus(field, step, way);
            }
            for (rest, applied) in rest.iter_mut().zip(&applied) {
                *rest = plus(rest, -step, applied);
            }
            let [next] = sum(team, [rest.iter().map(norm).sum()])?;
            for (way, rest) in way.iter_mut().zip(&rest) {
                *way = plus(rest, next / now, way);
            }
            now = next;
        }
        let solved = Solved { ns: elapsed(ra, begin), exchange_ns, iterations, checked: None };
        Ok((field, solved))
    }

    /// Compares the ranks' combined solution with the expected one.
    fn compare_parts(&self, ranks: Grid, local: Grid, parts: &[Vec<Vector>]) -> Result<Checked> {
        let grid = Grid(std::array::from_fn(|i| ranks.0[i] * local.0[i]));
        let mut whole = vec![Vector::default(); grid.len()];
        for (rank, field) in parts.iter().enumerate() {
            let here = ranks.place(rank);
            for (site, vector) in field.iter().enumerate() {
                let place = local.place(site);
                whole[grid.number(std::array::from_fn(|i| here[i] * local.0[i] + place[i]))] = *vector;
            }
        }
        self.compare(grid, &whole)
    }

    /// Compares a solution, by global numbers, with the equation and with a sequential solution.
    fn compare(&self, grid: Grid, solution: &[Vector]) -> Result<Checked> {
        let whole = Whole::new(grid, self.mass);
        let residual = whole.residual(solution);
        // The recurrence of conjugate gradients and the residual drift apart by rounding.
        let most = 2.0 * self.tolerance + 1e-14;
        if !within(residual, most) {
            return Err(wrong(
                "lattice",
                format!("the residual is {residual:.2e} of the right-hand side; at most {most:.2e} is allowed"),
            ));
        }
        if solution.len() as u64 > SEQUENTIAL {
            return Ok(Checked { residual, difference: None });
        }
        let expected = whole.solve(self.tolerance, self.iterations);
        let largest = expected.iter().map(|vector| norm(vector).sqrt()).fold(0.0, f64::max);
        let mass = self.mass * self.mass;
        let most = 2.0 * (mass + 16.0) / mass * self.tolerance + 1e-12;
        let mut difference = 0.0_f64;
        for (site, (found, expected)) in solution.iter().zip(&expected).enumerate() {
            let here = norm(&plus(found, -1.0, expected)).sqrt() / largest;
            if !within(here, most) {
                return Err(wrong(
                    "lattice",
                    format!(
                        "site {:?} differs from a sequential solution by {here:.2e} of the largest number, and may by \
                         {most:.2e}",
                        grid.place(site)
                    ),
                ));
            }
            difference = difference.max(here);
        }
        Ok(Checked { residual, difference: Some(difference) })
    }
}

impl Job for Lattice {
    type Out = Solved;

    const NAME: &'static str = "lattice";

    fn segment_bytes(&self, _ranks: u32) -> u64 {
        (4 << 20) + halo::segment_bytes(8, self.face_bytes()) + root_bytes(self.sites() * VECTOR)
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Solved> {
        self.fits(ra.size())?;
        let local = self.local()?;
        let ranks = Grid(factors(ra.size()));
        let part = Part::new(ranks, local, ra.rank().index());
        let team = Team::new(ra)?;
        let (field, mut solved) = self.solve(&team, &part, ranks)?;
        solved.checked = at_root(&team, &field, field.len(), |parts| self.compare_parts(ranks, local, &parts))?;
        Ok(solved)
    }
}

impl Application for Lattice {
    const TITLE: &'static str = "conjugate gradients on a four-dimensional lattice";

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
        let ranks = ran.ranks.len();
        let dims = |sites: &[u32]| sites.iter().map(ToString::to_string).collect::<Vec<_>>().join(" × ");
        let sites = self.sites() * ranks as u64;
        let size = format!("{} for each of {ranks} ranks ({})", dims(&self.local), dims(&factors(ranks as u32)));
        table.row([Value::from("sites"), Value::from(size)]);
        table.row([Value::from("iterations"), Value::Count(first.iterations.into())]);
        table.row([Value::from("time"), Value::Time(ns)]);
        let iterations = f64::from(first.iterations.max(1));
        table.row([Value::from("time of an iteration"), Value::Time(ns / iterations)]);
        let exchange = ran.ranks.iter().map(|solved| solved.exchange_ns).fold(0.0, f64::max);
        table.row([Value::from("of it exchange, on the slowest rank"), Value::Time(exchange / iterations)]);
        table.row([Value::from("sites in iterations"), Value::Rate(sites as f64 * iterations / ns * 1e9)]);
        if let Some(Checked { residual, difference }) = first.checked {
            table.row([Value::from("residual, computed apart"), Value::from(format!("{residual:.2e}"))]);
            let compared = difference.map_or_else(
                || format!("not compared: more than {SEQUENTIAL} sites"),
                |difference| format!("{difference:.2e} of the largest number"),
            );
            table.row([Value::from("difference from a sequential solution"), Value::from(compared)]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::support::defaults;
    use super::*;
    use rmalab_job as job;

    fn small() -> Lattice {
        Lattice { local: vec![2, 3, 2, 2], ..defaults() }
    }

    #[test]
    fn ranks_are_spread_over_four_directions() {
        assert_eq!(factors(1), [1, 1, 1, 1]);
        assert_eq!(factors(2), [1, 1, 1, 2]);
        assert_eq!(factors(16), [2, 2, 2, 2]);
        assert_eq!(factors(512).iter().product::<u32>(), 512);
        assert_eq!(factors(7), [1, 1, 1, 7]);
        assert_eq!(factors(12).iter().product::<u32>(), 12);
    }

    #[test]
    fn every_transport_solves_the_equation() {
        let stop = AtomicBool::new(false);
        for (how, sync) in [
            (How::Window, Sync::Flags),
            (How::Window, Sync::Fence),
            (How::Window, Sync::Pscw),
            (How::Dart, Sync::Flags),
            (How::Messages, Sync::Flags),
        ] {
            for ranks in [1, 2, 3, 4] {
                let job = Lattice { how, sync, ..small() };
                let ran = job::run(&job, &Ranks::threads(ranks), &stop).unwrap();
                let checked = ran.ranks[0].checked.unwrap();
                assert!(checked.residual < 2e-8 && checked.difference.is_some(), "{checked:?}");
            }
        }
    }

    #[test]
    fn simulated_ranks_solve_it_in_virtual_time() {
        let stop = AtomicBool::new(false);
        for (how, sync) in [(How::Window, Sync::Flags), (How::Window, Sync::Pscw), (How::Messages, Sync::Flags)] {
            let job = Lattice { how, sync, ..small() };
            let ran = job::run(&job, &Ranks::simulated("gemini", 6).ranks_per_node(2), &stop).unwrap();
            assert!(ran.ranks[0].checked.unwrap().difference.is_some());
            let computed = f64::from(ran.ranks[0].iterations) * 24.0 * job.site_ns;
            assert!(job.time(&ran) > computed, "{how:?}: it has computed for {computed} ns");
        }
    }

    #[test]
    fn wrong_solutions_are_detected() {
        let job = small();
        let grid = Grid([2, 3, 2, 2]);
        let whole = Whole::new(grid, job.mass);
        let mut solution = whole.solve(job.tolerance, job.iterations);
        assert_eq!(job.compare(grid, &solution).unwrap().difference, Some(0.0));
        solution[17][1].im += 1e-6;
        assert!(job.compare(grid, &solution).unwrap_err().to_string().contains("the residual is"));
        solution[17][1].im = f64::NAN;
        assert!(job.compare(grid, &solution).unwrap_err().to_string().contains("the residual is NaN"));
        // Two exchanged sites.
        let mut solution = whole.solve(job.tolerance, job.iterations);
        solution.swap(3, 9);
        assert!(job.compare(grid, &solution).is_err());
    }

    /// Ranks that use only the faces of the first exchange converge to another solution.
    #[test]
    fn missing_exchanges_of_faces_are_detected() {
        let job = Lattice { iterations: 100_000, tolerance: 1e-3, ..small() };
        let (ranks, local) = (Grid([1, 1, 1, 2]), job.local().unwrap());
        let run = |ra: &rmalab_atomics::Mapped| {
            let team = Team::new(ra)?;
            let part = Part::new(ranks, local, ra.rank().index());
            let (field, _) = job.iterate(&team, &part, &mut |_, _| Ok(()))?;
            at_root(&team, &field, field.len(), |parts| Ok(job.compare_parts(ranks, local, &parts)))
        };
        let seen = rmalab_atomics::World::threads(2).run(run).unwrap().remove(0).unwrap().unwrap();
        assert!(seen.unwrap_err().to_string().contains("the residual is"));
    }

    #[test]
    fn divergence_is_an_error() {
        let job = Lattice { iterations: 2, ..small() };
        let error = job::run(&job, &Ranks::threads(2), &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("after 2 iterations"), "{error}");
    }
}
