use proptest::prelude::*;

use super::*;

/// Applies `op` to elements, to words, to a slice and to unaligned bytes. All results must agree.
fn apply<T: Element>(op: Op, target: T, origin: T) -> T {
    let combined = T::combine(op, target, origin);
    let mut slice = [target; 3];
    combine_slice(op, &mut slice, &[origin; 2]);
    let bytes = |element: &T| bytemuck::bytes_of(element).to_vec();
    assert_eq!(slice.map(|element| bytes(&element)), [combined, combined, target].map(|element| bytes(&element)));
    for shift in 0..2 {
        let mut of_target = [vec![0; shift], bytes(&target), bytes(&target), vec![7]].concat();
        let of_origin = [vec![0; shift], bytes(&origin), bytes(&origin), vec![9, 9]].concat();
        T::KIND.combine_bytes(op, &mut of_target[shift..], &of_origin[shift..]);
        // For an element of one byte, the rest is an element, too.
        let whole = shift + 2 * size_of::<T>();
        assert_eq!(of_target[shift..whole], [bytes(&combined), bytes(&combined)].concat());
    }
    if T::FITS_WORD {
        assert_eq!(bytes(&T::from_word(combined.to_word())), bytes(&combined));
        let mut of_word = bytes(&target);
        from_word(T::KIND.combine_words(op)(to_word(&bytes(&target)), to_word(&bytes(&origin))), &mut of_word);
        assert_eq!(of_word, bytes(&combined));
    }
    combined
}

#[test]
fn each_kind_has_the_operations_of_the_table() {
    let defined = |kind: ElementKind| Op::ALL.map(|op| u8::from(op.is_defined_for(kind)));
    let rows = |kinds: &[ElementKind], row| kinds.iter().for_each(|kind| assert_eq!(defined(*kind), row, "{kind}"));
    rows(&ElementKind::ALL[..8], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
    rows(&ElementKind::ALL[8..10], [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
    rows(&ElementKind::ALL[10..20], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
    rows(&ElementKind::ALL[20..22], [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
    rows(&[ElementKind::Logical], [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0]);
    rows(&[ElementKind::Byte], [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0]);
    let swappable: Vec<ElementKind> = ElementKind::ALL.into_iter().filter(|kind| kind.is_swappable()).collect();
    assert_eq!(swappable, [&ElementKind::ALL[..8], &[ElementKind::Logical, ElementKind::Byte]].concat());
}

#[test]
fn codes_and_names() {
    for op in Op::ALL {
        assert_eq!(Op::from_code(op.code()), Some(op));
    }
    for kind in ElementKind::ALL {
        assert_eq!(ElementKind::from_code(kind.code()), Some(kind));
    }
    assert_eq!((Op::from_code(14), ElementKind::from_code(24)), (None, None));
    assert_eq!(Op::MinLoc.to_string(), "minloc");
    assert_eq!(i32::KIND.to_string(), "i32");
    assert_eq!(Pair::<f64, i64>::KIND.to_string(), "pair of f64 and i64");
    assert_eq!((ElementKind::PairF64I64.size(), ElementKind::PairI16.align()), (16, 2));
}

#[test]
fn integers_wrap() {
    assert_eq!(apply(Op::Sum, i8::MAX, 1), i8::MIN);
    assert_eq!(apply(Op::Prod, u16::MAX, u16::MAX), 1);
    assert_eq!(apply(Op::Sum, u64::MAX, 2), 1);
}

#[test]
fn logical_operations_give_0_or_1() {
    let all = |op| [(0, 0), (0, -3), (5, 0), (5, -3)].map(|(target, origin)| apply(op, target, origin));
    assert_eq!(all(Op::LogicalAnd), [0, 0, 0, 1]);
    assert_eq!(all(Op::LogicalOr), [0, 1, 1, 1]);
    assert_eq!(all(Op::LogicalXor), [0, 1, 1, 0]);
}

#[test]
fn a_number_is_preferred_to_a_nan() {
    for op in [Op::Min, Op::Max] {
        assert_eq!(apply(op, f64::NAN, 2.0), 2.0);
        assert_eq!(apply(op, 2.0, f64::NAN), 2.0);
        assert!(apply(op, f32::NAN, f32::NAN).is_nan());
        assert!(apply(op, -0.0_f64, 0.0).is_sign_negative());
        assert!(apply(op, 0.0_f64, -0.0).is_sign_positive());
    }
    assert_eq!(apply(Op::Min, 1.0, -2.0_f32), -2.0);
    assert_eq!(apply(Op::Max, 1.0, -2.0_f32), 1.0);
}

#[test]
fn pairs_are_located() {
    let low = |target: (f32, i32), origin: (f32, i32)| {
        let pair = apply(Op::MinLoc, Pair::new(target.0, target.1), Pair::new(origin.0, origin.1));
        (pair.value(), pair.index())
    };
    assert_eq!(low((2.0, 1), (1.0, 9)), (1.0, 9));
    assert_eq!(low((1.0, 9), (2.0, 1)), (1.0, 9));
    assert_eq!(low((1.0, 9), (1.0, 1)), (1.0, 1));
    assert_eq!(low((1.0, 1), (1.0, 9)), (1.0, 1));
    assert_eq!(low((f32::NAN, 1), (1.0, 9)), (1.0, 9));
    assert_eq!(low((1.0, 9), (f32::NAN, 1)), (1.0, 9));
    assert_eq!(low((f32::NAN, 2), (f32::NAN, 1)).1, 1);
    let double = apply(Op::MaxLoc, DoubleInt::new(2.5, 7), DoubleInt::new(2.5, 3));
    assert_eq!((double.value(), double.index()), (2.5, 3));
    assert_eq!(apply(Op::MinLoc, LongInt::new(i64::MIN, 1), LongInt::new(0, 0)), LongInt::new(i64::MIN, 1));
    assert_eq!(apply(Op::MinLoc, ShortInt::new(1, 70_000), ShortInt::new(-1, 90_000)), ShortInt::new(-1, 90_000));
    let high = apply(Op::MaxLoc, Pair::new(-5_i64, 1), Pair::new(3, 2));
    assert_eq!(high, Pair::new(3, 2));
    assert_ne!(high, Pair::new(3, 1));
}

#[test]
fn a_pair_is_the_value_followed_by_the_index() {
    let pair = Pair::new(1.5_f64, -1_i64);
    assert_eq!(bytemuck::bytes_of(&pair), [1.5_f64.to_ne_bytes(), (-1_i64).to_ne_bytes()].concat());
    assert_eq!(format!("{pair:?}"), "Pair { value: 1.5, index: -1 }");
}

/// C puts the index of a short pair at the next multiple of the index's size, and rounds a structure's size up to its
/// alignment.
#[test]
fn pairs_of_two_sizes_have_the_layout_of_c() {
    let bytes = |value: &[u8], index: i32| [value, &index.to_ne_bytes()].concat();
    let padded = |value: &[u8], index| [bytes(value, index), vec![0; 4]].concat();
    assert_eq!(bytemuck::bytes_of(&DoubleInt::new(1.5, -1)), padded(&1.5_f64.to_ne_bytes(), -1));
    assert_eq!(bytemuck::bytes_of(&LongInt::new(7, -1)), padded(&7_i64.to_ne_bytes(), -1));
    let short = [7_i16.to_ne_bytes(), [0; 2]].concat();
    assert_eq!(bytemuck::bytes_of(&ShortInt::new(7, -1)), bytes(&short, -1));
    assert_eq!(
        [ElementKind::DoubleInt, ElementKind::LongInt, ElementKind::ShortInt].map(|kind| (kind.size(), kind.align())),
        [(16, 8), (16, 8), (8, 4)]
    );
    assert_eq!(format!("{:?}", ShortInt::new(7, 3)), "ShortInt { value: 7, index: 3 }");
    // The bytes that a C program leaves in the padding are not part of the value.
    let dirty = [short[..2].to_vec(), vec![0xA5; 2], 3_i32.to_ne_bytes().to_vec()].concat();
    assert_eq!(bytemuck::pod_read_unaligned::<ShortInt>(&dirty), ShortInt::new(7, 3));
}

#[test]
fn complex_numbers_are_added_and_multiplied() {
    let (a, b) = (Complex::new(1.0_f64, 2.0), Complex::new(3.0, -1.0));
    assert_eq!(apply(Op::Sum, a, b), Complex::new(4.0, 1.0));
    assert_eq!(apply(Op::Prod, a, b), Complex::new(5.0, 5.0));
    assert_eq!(apply(Op::Replace, Complex::new(1.0_f32, 2.0), Complex::new(0.5, 0.0)), Complex::new(0.5, 0.0));
    assert_eq!(bytemuck::bytes_of(&a), [1.0_f64.to_ne_bytes(), 2.0_f64.to_ne_bytes()].concat());
}

#[test]
fn logical_values_and_bytes_have_their_own_operations() {
    let truth = |op| [(0, 0), (0, 2), (1, 0), (1, 2)].map(|(a, b)| apply(op, Logical(a), Logical(b)).0);
    assert_eq!(truth(Op::LogicalAnd), [0, 0, 0, 1]);
    assert_eq!(truth(Op::LogicalOr), [0, 1, 1, 1]);
    assert_eq!(truth(Op::LogicalXor), [0, 1, 1, 0]);
    assert_eq!((Logical::from(true), Logical::default()), (Logical::new(true), Logical::new(false)));
    let bits = |op| apply(op, Byte(0b1100), Byte(0b1010)).0;
    assert_eq!([Op::BitAnd, Op::BitOr, Op::BitXor].map(bits), [0b1000, 0b1110, 0b0110]);
}

#[test]
fn words_hold_the_bytes_in_memory_order() {
    assert_eq!(0x1234_u16.to_word().to_ne_bytes()[..2], 0x1234_u16.to_ne_bytes());
    assert_eq!((-1_i8).to_word().to_ne_bytes(), [255, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(u16::from_word(u64::MAX), u16::MAX);
    // A longer element gives its first 8 bytes.
    assert_eq!(Pair::<i64, i64>::from_word(Pair::new(7_i64, 8_i64).to_word()), Pair::new(7, 0));
}

#[test]
fn undefined_operations_change_nothing() {
    for op in Op::ALL {
        if !op.is_defined_for(ElementKind::F64) {
            assert_eq!(apply(op, 3.0, 5.0), 3.0, "{op}");
        }
        if !op.is_defined_for(ElementKind::PairI32) {
            assert_eq!(apply(op, Pair::new(3, 4), Pair::new(1, 1)), Pair::new(3, 4), "{op}");
        }
        if !op.is_defined_for(ElementKind::U8) {
            assert_eq!(apply(op, 3_u8, 5), 3, "{op}");
        }
        if !op.is_defined_for(ElementKind::ComplexF32) {
            assert_eq!(apply(op, Complex::new(3.0_f32, 4.0), Complex::default()), Complex::new(3.0, 4.0), "{op}");
        }
        if !op.is_defined_for(ElementKind::Logical) {
            assert_eq!(apply(op, Logical::new(true), Logical::new(false)), Logical::new(true), "{op}");
        }
        if !op.is_defined_for(ElementKind::Byte) {
            assert_eq!(apply(op, Byte(3), Byte(5)), Byte(3), "{op}");
        }
    }
}

proptest! {
    #[test]
    fn integers_agree_with_wide_arithmetic(target: i32, origin: i32) {
        let wide = |op| match op {
            Op::Sum => (i64::from(target) + i64::from(origin)) as i32,
            Op::Prod => (i64::from(target) * i64::from(origin)) as i32,
            Op::Min => if target < origin { target } else { origin },
            Op::Max => if target < origin { origin } else { target },
            Op::BitAnd => !(!target | !origin),
            Op::BitOr => !(!target & !origin),
            Op::BitXor => (target | origin) & !(target & origin),
            Op::Replace => origin,
            _ => target,
        };
        for op in [Op::Sum, Op::Prod, Op::Min, Op::Max, Op::BitAnd, Op::BitOr, Op::BitXor, Op::Replace, Op::NoOp] {
            prop_assert_eq!(apply(op, target, origin), wide(op), "{}", op);
        }
    }

    #[test]
    fn minloc_and_maxloc_do_not_depend_on_the_order(a: (i16, i16), b: (i16, i16), c: (i16, i16)) {
        for op in [Op::MinLoc, Op::MaxLoc] {
            let [a, b, c] = [a, b, c].map(|(value, index)| Pair::new(value % 4, index % 4));
            prop_assert_eq!(apply(op, a, b), apply(op, b, a));
            prop_assert_eq!(apply(op, apply(op, a, b), c), apply(op, a, apply(op, b, c)));
        }
    }
}
