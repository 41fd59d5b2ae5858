//! Programs that must not compile, and the compiler's messages.
//!
//! After a change of a message, or of the compiler, check it, then run `TRYBUILD=overwrite cargo test -p rmalab-windows
//! --test compile_fail`.

#[test]
fn what_must_not_compile_does_not() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
