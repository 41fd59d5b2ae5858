//! The program of the tutorial (`docs/tutorial.md`): a lock that is wrong, the mended one, and a window that uses it.
//!
//! `cargo run --release -p rmalab --example tutorial -- check`, `-- study` or `-- window`

mod draft;
mod gate;
mod proof;
mod table;

use std::error::Error;

use draft::Draft;
use gate::Gate;
use rmalab::document::{folder::Folder, text};
use rmalab_locks::suite;
use rmalab_verify::Subject;

// ANCHOR: main
fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = rmalab::Registry::standard();
    registry.add_mutex::<Gate>("test-and-set mutex of the tutorial").paper("Anderson, IEEE TPDS 1(1), 1990");
    rmalab::study::serve(&registry)?; // the study's processes are this program again, and end here

    match std::env::args().nth(1).as_deref() {
        Some("check") => {
            print!("{}", proof::search(&Subject::mutex::<Draft>(()), &["2Wx1"])?);
            print!("{}", proof::search(&Subject::mutex::<Gate>(()), &["2Wx2", "3Wx1", "4Wx2"])?);
            suite::mutex::<Gate>(()); // threads under contention; panics if it finds something
            let (acquire, release) = suite::mutex_cost::<Gate>(());
            println!("remote operations: acquire {acquire}, release {release}");
        }
        Some("study") => {
            let mut options = rmalab::Options::default();
            options.locks = ["gate", "tas", "mcs"].map(String::from).to_vec();
            let outcome = rmalab::study::run(&registry, &options)?;
            let document = outcome.document();
            print!("{}", text::document(&document, text::WIDTH));
            let folder = Folder::prepare("tutorial-report".as_ref())?.write(&document)?;
            println!("report: {}", folder.join("index.html").display());
        }
        Some("window") => println!("{:?}", table::fill(4)?),
        _ => println!("say what to do: check, study or window"),
    }
    Ok(())
}
// ANCHOR_END: main
