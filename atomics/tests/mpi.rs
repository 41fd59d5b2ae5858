//! stub
fn main() {
    let ra = match rmalab_atomics::mpi::attach() {
        Ok(ra) => ra,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(2)
        }
    };
    use rmalab_atomics::RemoteAtomics;
    for check in rmalab_atomics::conformance::checks::<rmalab_atomics::mpi::Mpi>() {
        if !check.suits(ra.size()) {
            continue;
        }
        let t = std::time::Instant::now();
        if let Err(f) = (check.run)(&ra) {
            eprintln!("{f}");
            ra.fail()
        }
        if ra.rank().0 == 0 {
            println!("ok {} {:?}", check.name, t.elapsed());
        }
    }
    println!("flushes {}", ra.ordering_flushes());
}
