use super::*;

fn spans(spans: &[(usize, usize)]) -> Vec<Span> {
    spans.iter().map(|&(at, len)| Span { at, len }).collect()
}

/// Ranges of five members, of which this rank is the second: its own part and gaps between the others stay out of both copies.
#[test]
fn only_what_moves_is_copied() {
    let mut ranges = Ranges::default();
    let to = spans(&[(8, 4), (0, 8), (99, 0), (12, 4), (12, 4)]);
    let from = spans(&[(4, 6), (10, 8), (18, 2), (20, 3), (40, 5)]);
    ranges.fill(1, &to, &from);
    assert_eq!(ranges.compact(), (Span { at: 8, len: 8 }, 16));
    assert_eq!(ranges.to, spans(&[(0, 4), (0, 0), (0, 0), (4, 4), (4, 4)]));
    assert_eq!(ranges.from, spans(&[(0, 6), (6, 0), (6, 2), (8, 3), (11, 5)]));
    let mut copies = Vec::new();
    let noted = ranges.landings(|place, from, len| {
        copies.push((place, from, len));
        Ok(())
    });
    assert_eq!((noted, copies), (Ok(()), vec![(4, 0, 6), (18, 6, 5), (40, 11, 5)]));
    ranges.fill(0, &spans(&[(3, 9)]), &spans(&[(0, 9)]));
    assert_eq!(ranges.compact(), (Span::default(), 0));
    assert_eq!(ranges.landings(|_, _, _| unreachable!("nothing moves")), Ok(()));
}

/// A piece is used again once the device is done with it, whichever exchange needs it next.
#[test]
fn pieces_are_used_again() {
    let (device, mut pieces) = (Device::Reference, Pieces::default());
    let (large, small) = (pieces.take(&device, 1000).unwrap(), pieces.take(&device, 10).unwrap());
    let addresses = [large.bytes.as_ptr(), small.bytes.as_ptr()];
    pieces.give_back(large);
    pieces.give_back(small);
    let (first, second) = (pieces.take(&device, 64).unwrap(), pieces.take(&device, 64).unwrap());
    assert_eq!([second.bytes.as_ptr(), first.bytes.as_ptr()], addresses);
    pieces.give_back(second);
    assert!(pieces.take(&device, 5000).unwrap().bytes.len() >= 5000);
    assert!(pieces.0.is_empty(), "a larger piece takes the place of the largest");
}
