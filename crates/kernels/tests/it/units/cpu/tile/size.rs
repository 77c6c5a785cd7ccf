use kernels::internals::cpu::Level;
use kernels::internals::cpu::products::WIDE;
use std::ops::Range;

#[test]
fn no_tile_of_three_vectors_leaves_one() {
    let widths = |columns: Range<usize>| -> Vec<usize> { WIDE.cut(columns).map(|some| some.len()).collect() };
    assert_eq!(widths(0..144), [48, 48, 48]);
    assert_eq!(widths(480..992), [[48; 10].as_slice(), &[32]].concat());
    assert_eq!(widths(0..256), [[48; 4].as_slice(), &[32, 32]].concat());
    assert_eq!(widths(7..56), [32, 17]);
    assert_eq!(widths(0..16), [16]);
    assert_eq!(widths(3..3), [0; 0]);
    let tall = Level::Avx512.tall_tile();
    assert_eq!(tall.cut(0..41).collect::<Vec<_>>(), [0..32, 32..41]);
    for columns in 0..400 {
        let cut: Vec<_> = WIDE.cut(5..5 + columns).collect();
        assert_eq!(
            cut.len(),
            columns.div_ceil(WIDE.columns),
            "{columns} columns take as many panels as there is room for"
        );
        assert!(cut.iter().flat_map(Range::clone).eq(5..5 + columns));
        // Some panels are cut as all of them are.
        let panels: Vec<_> = WIDE.cut(0..columns).collect();
        for (panel, some) in panels.iter().enumerate() {
            assert_eq!((WIDE.start(panel, columns), WIDE.panel(some.start)), (some.start, panel));
            assert!(WIDE.cut(some.start..columns).eq(panels[panel..].iter().cloned()));
            assert!(WIDE.cut(0..some.start).eq(panels[..panel].iter().cloned()));
        }
        assert_eq!(WIDE.start(WIDE.panels(columns), columns), columns);
    }
}
