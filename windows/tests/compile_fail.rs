//! What must not compile, and what the compiler says to it.
//!
//! After a change of a message, or of the compiler: look at it, then `TRYBUILD=overwrite cargo test -p rmalab-windows --test
//! compile_fail`.

#[test]
fn what_must_not_compile_does_not() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
