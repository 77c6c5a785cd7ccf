use kernels::internals::cpu::peak::{Kind, Way, change_rows, first_half, sum_rows, sum_rows_together};
use kernels::peak::{Memory, Stream};

/// Every loop touches whole rows, as many as it says, inside the table, whatever the row size and the distance.
#[test]
fn rows_are_read_and_changed_as_a_whole() {
    for (floats, ahead) in [(1, 0), (3, 2), (8, 64), (20, 1), (48, 3), (100, 2)] {
        let rows = 9;
        let mut table: Vec<f32> = (0..rows * floats).map(|i| (i % 7) as f32).collect();
        let ids = [0, 8, 3, 3, 5, 0];
        let expected: f32 = ids.iter().flat_map(|&id| &table[id as usize * floats..][..floats]).sum();
        assert_eq!(sum_rows(&table, floats, &ids, ahead), expected);
        assert_eq!(sum_rows_together(&table, floats, &ids), expected);
        let before = table.clone();
        change_rows(&mut table, floats, &ids, ahead);
        for (i, (now, before)) in table.iter().zip(&before).enumerate() {
            let times = ids.iter().filter(|&&id| id as usize == i / floats).count();
            assert!((now - before - times as f32 * 1e-3).abs() < 1e-5, "{floats} floats, number {i}");
        }
    }
}

/// Rounds of all loops over a small table, with sizes that do not divide it.
#[test]
fn rounds_give_a_bandwidth() {
    for threads in [1, 3] {
        let mut memory = Memory::new(100_004, threads).unwrap();
        let Stream { read, copy } = memory.stream();
        let (from, to) = memory.table().split_at(first_half(memory.table().len()));
        assert!(to.starts_with(from) && read > 0.0 && copy > 0.0);
        for row_bytes in [0, 32, 80, 1 << 30] {
            for way in [Way::Ahead(4096), Way::Together] {
                assert!(memory.random_rows(Kind::Gather, (row_bytes / 4).clamp(1, 8000), way) > 0.0);
                assert!(memory.random_rows(Kind::Update, (row_bytes / 4).clamp(1, 8000), way) > 0.0);
            }
        }
        let changed = memory.table().iter().filter(|x| **x > 1.0).count();
        assert!(changed * 2 > memory.table().len(), "{changed} numbers changed");
    }
}
