//! A distributed hash table: every rank inserts and looks up keys, and no rank has to serve requests.
//!
//! After R. Gerstenberger, M. Besta, T. Hoefler, Enabling highly-scalable remote memory access programming with MPI-3 one
//! sided, SC'13, section 4.1. Each rank has a part: a table of slots, and a heap of cells for keys whose slot is taken. A
//! key goes into its slot with compare_and_swap. If the slot is taken, the key gets a cell with fetch_and_op, and another
//! compare_and_swap links the cell to the slot's list.
//!
//! `cargo run -p rmalab-windows --example hash_table -- --backend shm --ranks 4`; with `--features mpi` under `mpirun
//! -n 4`, with `--features verbs` both ways.
//!
//! With `--record DIR` it records a trace (see `rmalab_windows::trace`), which can be replayed under other lock
//! policies.

mod world;

use std::path::Path;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{LockAll, Op, Result, Team, Window, WindowDisp};

/// The number of keys that each rank inserts.
const KEYS: u64 = 500;
/// The number of slots of each rank.
const SLOTS: u64 = 50;

// Each rank's part, in words: the number of used cells, then the slots, then the cells. A slot or cell is a key, 0 for
// none, and the place of the next cell, 0 for none.
const TAKEN: WindowDisp = WindowDisp(0);
const FIRST_CELL: u64 = 1 + 2 * SLOTS;

fn key_at(place: u64) -> WindowDisp {
    WindowDisp(place as i64)
}

fn next_at(place: u64) -> WindowDisp {
    WindowDisp(place as i64 + 1)
}

/// Returns the rank and the place of a key's slot.
fn slot_of(key: u64, ranks: u32) -> (Rank, u64) {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (Rank((hash % u64::from(ranks)) as u32), 1 + 2 * (hash / u64::from(ranks) % SLOTS))
}

/// Inserts a key that the table does not have yet. Returns whether it went into a cell.
fn insert(table: &LockAll<'_, '_, dyn RemoteAtomics + '_>, key: u64, ranks: u32) -> Result<bool> {
    let (rank, slot) = slot_of(key, ranks);
    let part = table.at(rank)?;
    if part.compare_and_swap(key_at(slot), 0, key)? == 0 {
        return Ok(false);
    }
    let cell = FIRST_CELL + 2 * part.fetch_and_op(TAKEN, Op::Sum, 1)?;
    let mut head: u64 = part.get_value(next_at(slot))?;
    loop {
        part.put(key_at(cell), &[key, head])?;
        table.flush(rank)?; // no rank may find the cell before its words are there
        match part.compare_and_swap(next_at(slot), head, cell)? {
            seen if seen == head => return Ok(true),
            seen => head = seen,
        }
    }
}

fn contains(table: &LockAll<'_, '_, dyn RemoteAtomics + '_>, key: u64, ranks: u32) -> Result<bool> {
    let (rank, mut place) = slot_of(key, ranks);
    let part = table.at(rank)?;
    loop {
        match part.get_value::<[u64; 2]>(key_at(place))? {
            [found, _] if found == key => return Ok(true),
            [_, 0] => return Ok(false),
            [_, next] => place = next,
        }
    }
}

fn fill_and_search(ra: &dyn RemoteAtomics, record: Option<&Path>) -> world::Result<u64> {
    let team = Team::new(ra)?;
    let (me, size) = (u64::from(team.rank().0), team.size());
    let inserted = u64::from(size) * KEYS;
    // Cells for all keys, even if all hash to one rank.
    let mut builder = Window::builder(&team).disp_unit(8).name("hash_table");
    if let Some(dir) = record {
        builder = builder.record(dir);
    }
    let mut window = builder.allocate(8 * (FIRST_CELL + 2 * inserted))?;
    let table = window.lock_all()?;

    let mut in_cells = 0;
    for key in me * KEYS + 1..=(me + 1) * KEYS {
        in_cells += u64::from(insert(&table, key, size)?);
    }
    team.barrier()?;

    // Every rank looks for all ranks' keys, and for as many keys that were not inserted.
    for key in 1..=2 * inserted {
        if contains(&table, key, size)? != (key <= inserted) {
            return Err(format!("{}: a wrong answer for key {key} of {inserted}", team.rank()).into());
        }
    }
    table.unlock_all()?;
    window.free()?;
    Ok(in_cells)
}

fn main() -> world::Result<()> {
    world::run(fill_and_search, |in_cells| {
        println!("every inserted key is found, and no other one; {in_cells} are in overflow cells");
    })
}
