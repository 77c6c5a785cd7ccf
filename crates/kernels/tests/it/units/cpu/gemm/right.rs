use kernels::Cpu;
use kernels::internals::cpu::Level;
use kernels::internals::cpu::products::{Operand, RightPanels, Values, longest};

/// Every element of every column is in the panel and at the line where tiles look for it.
#[test]
fn panels_of_all_parts_lie_where_tiles_read_them() {
    let cpu = Cpu::new(2).unwrap();
    for (columns, k, terms) in [(1, 1, 0..1), (64, 600, 0..600), (250, 1100, 734..1100), (480, 7, 0..7)] {
        let data: Vec<f32> = (0..columns * k).map(|i| i as f32).collect();
        let b = Operand { data: Values::Plain(&data), stride: k, by_k: false };
        let panels = RightPanels::of_terms(Level::detect(), columns, k, terms.clone());
        let mut packed = vec![f32::NAN; panels.floats()];
        panels.pack(&cpu, b, &mut packed);
        for from in terms.clone().step_by(longest(k)) {
            let part = from..(from + longest(k)).min(terms.end);
            for some in panels.size().cut(0..columns) {
                let panel = &packed[panels.at(&part, some.start)];
                for (line, term) in panel.chunks(panels.size().columns).zip(part.clone()) {
                    let expected = some.clone().map(|column| (column * k + term) as f32);
                    assert!(line.iter().copied().zip(expected).all(|(a, b)| a == b), "{columns} {term}");
                }
            }
        }
    }
}
