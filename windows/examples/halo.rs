//! Halo exchange: heat spreads over a plate, which is cut into strips of columns, one for each rank.
//!
//! In every step each rank puts its outermost columns into the halo columns of its neighbours, between two fences. A
//! column of a matrix in row-major order is a layout: one number from every row.
//!
//! `cargo run -p rmalab-windows --example halo -- --backend shm --ranks 4`; with `--features mpi` under `mpirun -n 4`,
//! with `--features verbs` both ways.

mod world;

use std::path::Path;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{Layout, Team, Window, WindowDisp};

/// Rows of the plate; the first and the last row keep their temperatures.
const ROWS: usize = 24;
/// Columns of a rank's strip.
const WIDTH: usize = 16;
/// Columns of a strip with a halo column at either side.
const PITCH: usize = WIDTH + 2;
const STEPS: usize = 60;

/// Returns the initial temperatures of `pitch` columns from column `first` on, row by row.
fn plate(first: usize, pitch: usize) -> Vec<f64> {
    let place = |i: usize| ((i / pitch) as f64, (first + i % pitch) as f64);
    (0..ROWS * pitch).map(place).map(|(row, column)| (row * 0.7 + column * 0.3).sin()).collect()
}

/// Computes one step: every number inside becomes the mean of its four neighbours.
fn step(old: &[f64], pitch: usize) -> Vec<f64> {
    let mut new = old.to_vec();
    for row in 1..ROWS - 1 {
        for i in row * pitch + 1..row * pitch + pitch - 1 {
            new[i] = (old[i - pitch] + old[i + pitch] + old[i - 1] + old[i + 1]) / 4.0;
        }
    }
    new
}

fn spread(ra: &dyn RemoteAtomics, record: Option<&Path>) -> world::Result<u64> {
    let team = Team::new(ra)?;
    let (me, size) = (team.rank().0, team.size());
    // At the edges of the plate there is no neighbour: `None` is the null target, which accepts all operations.
    let left = me.checked_sub(1).map(Rank);
    let right = Some(Rank(me + 1)).filter(|right| right.0 < size);

    // Displacements in units of one number, so that they are indices of the matrix.
    let mut builder = Window::builder(&team).disp_unit(8).name("halo");
    if let Some(dir) = record {
        builder = builder.record(dir);
    }
    let mut window = builder.allocate((ROWS * PITCH * 8) as u64)?;
    let column = Layout::vector(ROWS as u64, 1, PITCH as i64, &Layout::of::<f64>())?;
    let (left_halo, right_halo) = (WindowDisp(0), WindowDisp(PITCH as i64 - 1));

    let mut strip = plate(me as usize * WIDTH, PITCH);
    for _ in 0..STEPS {
        // Outside of epochs only this rank uses its part.
        window.local()?.write(WindowDisp(0), &strip)?;

        // After this fence all ranks have written their strips; after the next one all columns have arrived.
        let epoch = window.fence()?;
        epoch.at(left)?.put_layout(right_halo, column.item(), &strip[1..], column.item())?;
        epoch.at(right)?.put_layout(left_halo, column.item(), &strip[WIDTH..], column.item())?;
        epoch.close()?;

        window.local()?.read(WindowDisp(0), &mut strip)?;
        strip = step(&strip, PITCH);
    }
    window.free()?;

    // The same computation without cuts: a plate of all strips, with one more column at either end.
    let whole_pitch = size as usize * WIDTH + 2;
    let whole = (0..STEPS).fold(plate(0, whole_pitch), |plate, _| step(&plate, whole_pitch));
    for (row, own) in strip.chunks(PITCH).enumerate() {
        let first = row * whole_pitch + me as usize * WIDTH;
        if own[1..=WIDTH] != whole[first + 1..=first + WIDTH] {
            return Err(format!("{}: row {row} differs from the sequential computation", team.rank()).into());
        }
    }
    Ok((ROWS * WIDTH) as u64)
}

fn main() -> world::Result<()> {
    world::run(spread, |numbers| {
        println!("{numbers} temperatures after {STEPS} steps, each equal to the sequential computation");
    })
}
