//! The names of policies, and the policies that they choose.

use rmalab_atomics::World;

use super::*;

#[test]
fn names_are_read_as_they_are_written() {
    assert_eq!(PolicyKind::default().to_string(), "two-level");
    for (&kind, &name) in PolicyKind::ALL.iter().zip(PolicyKind::NAMES) {
        assert_eq!(kind.to_string(), name);
        assert_eq!(name.parse(), Ok(kind));
        assert_eq!(PolicyKind::NAMES.iter().filter(|&&other| other == name).count(), 1, "{name}");
    }
    assert_eq!((PolicyKind::GLOBAL, "global".parse()), ("global", Ok(PolicyKind::McsRwRp)));
    let error = "three-level".parse::<PolicyKind>().unwrap_err().to_string();
    assert!(
        error.starts_with("no lock policy is called 'three-level'; there are two-level, two-level-scan, per-target,")
            && error.ends_with(", and global for mcs-rw-rp"),
        "{error}"
    );
}

#[test]
fn the_chosen_one_is_made() {
    let world = World::threads(2).run(|ra| {
        for &kind in PolicyKind::ALL {
            assert_eq!(Policy::new(ra, kind).unwrap().kind(), kind);
        }
    });
    world.unwrap();
}
