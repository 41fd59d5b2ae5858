//! A program can name every type of the public interface's fields, errors and methods.
//!
//! The lint `unnameable_types` finds types without a name. This test uses the types that once had none.

use rmalab_windows::{
    AccumulateOpSet, Config, EpochKinds, IgnoredReason, Info, InvalidHintValue, MemoryKinds, Transport,
};

/// A program's structure for the configuration of a window.
struct Asked {
    epochs: EpochKinds,
    operations: AccumulateOpSet,
    memory: MemoryKinds,
}

fn why(text: &str) -> Vec<IgnoredReason> {
    let info: Info = text.parse().unwrap();
    Config::from_info(&info).1.into_iter().map(|ignored| ignored.reason).collect()
}

#[test]
fn types_of_the_configuration_have_names() {
    let asked = Asked {
        epochs: EpochKinds::FENCE | EpochKinds::LOCK,
        operations: AccumulateOpSet::SUM,
        memory: MemoryKinds::SYSTEM,
    };
    let config = Config {
        epochs_used: asked.epochs,
        which_accumulate_ops: asked.operations,
        mpi_assert_memory_alloc_kinds: asked.memory,
        ..Config::default()
    };
    let info = config.to_info();
    let values = ["epochs_used", "which_accumulate_ops", "mpi_assert_memory_alloc_kinds"].map(|key| info.get(key));
    assert_eq!(values, [Some("fence,lock"), Some("sum"), Some("system")]);
}

#[test]
fn reasons_have_names() {
    assert!(matches!(why("colour=red")[..], [IgnoredReason::UnknownKey]));
    assert!(matches!(why("no_locks=maybe")[..], [IgnoredReason::Value(_)]));
    let error: InvalidHintValue = "by-pigeon".parse::<Transport>().unwrap_err();
    assert_eq!(error.value, "by-pigeon");
    assert!(error.expected.contains("two-sided"), "{error}");
}
