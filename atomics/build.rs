//! Compiles the constants that the `mpi` backend needs; without that feature there is nothing to do.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "mpi")]
    mpi_constants();
}

/// Compiles them with the same `mpicc` that mpi-sys finds.
#[cfg(feature = "mpi")]
fn mpi_constants() {
    const SOURCE: &str = "src/backend/mpi/constants.c";
    println!("cargo:rerun-if-changed={SOURCE}");
    for variable in ["MPICC", "MPI_PKG_CONFIG", "CRAY_MPICH_DIR"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let library = build_probe_mpi::probe().unwrap_or_else(|reasons| {
        panic!("no MPI: install one with its mpicc, or name its compiler in MPICC ({reasons:?})")
    });
    let mut build = cc::Build::new();
    if let Some(mpicc) = &library.mpicc {
        build.compiler(mpicc);
    }
    build.includes(&library.include_paths).file(SOURCE).compile("rmalab_mpi");
}
