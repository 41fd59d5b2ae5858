//! Programs that must not compile, and the compiler's messages.
//!
//! After a change of a message, or of the compiler, check it, then run `TRYBUILD=overwrite cargo test -p rmalab-windows
//! --test compile_fail -- --ignored`.

#[test]
#[ignore = "half a minute, builds dependencies again; .ci/run longer"]
fn longer_invalid_programs_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
