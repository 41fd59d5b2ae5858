//! Finds the properties of the installed MPI. Without the feature `mpi` there is nothing to do.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(large_counts, open_mpi)");
    #[cfg(feature = "mpi")]
    properties();
}

/// Compiles the table of predefined handles. Sets `large_counts` if the MPI has the calls of MPI-4 with counts of 64 bits, such as `MPI_Put_c`, and `open_mpi` if it is Open MPI.
///
/// This reads the header, since a program cannot ask the bindings of mpi-sys for a function.
#[cfg(feature = "mpi")]
fn properties() {
    for variable in ["MPICC", "MPI_PKG_CONFIG", "CRAY_MPICH_DIR"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let library = build_probe_mpi::probe().unwrap_or_else(|reasons| {
        panic!("no MPI: install one with its mpicc, or name its compiler in MPICC ({reasons:?})")
    });
    let source = std::path::Path::new(&std::env::var_os("OUT_DIR").expect("cargo sets it")).join("version.c");
    std::fs::write(&source, "#include <mpi.h>\nrmalab_version MPI_VERSION\nrmalab_open OPEN_MPI\n")
        .expect("cargo's folder can be written");
    let mut build = cc::Build::new();
    if let Some(mpicc) = &library.mpicc {
        build.compiler(mpicc);
    }
    build.includes(&library.include_paths);
    println!("cargo:rerun-if-changed=src/boundary/predefined.c");
    build.clone().file("src/boundary/predefined.c").compile("rmalab_predefined");
    let text = build.clone().file(source).expand();
    let text = String::from_utf8_lossy(&text);
    let number = |name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok());
    if number("rmalab_version ").expect("mpi.h defines MPI_VERSION") >= 4 {
        println!("cargo:rustc-cfg=large_counts");
    }
    if number("rmalab_open ").is_some() {
        println!("cargo:rustc-cfg=open_mpi");
    }
    own_unwinder(&build.get_compiler());
}

/// Links the compiler's unwinder into the library. Otherwise every program would load libgcc_s.so with it: 100 KiB that most C programs do
/// without. A compiler that has no such archive leaves it at that.
#[cfg(feature = "mpi")]
fn own_unwinder(compiler: &cc::Tool) {
    let asked = compiler.to_command().arg("-print-file-name=libgcc_eh.a").output();
    let printed = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    // The name alone if there is no such file.
    if let Some(folder) = std::path::Path::new(&printed).parent().filter(|folder| folder.is_absolute()) {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
}
