//! Lines through what was measured: `seconds = overhead + volume / rate`.
//!
//! ```
//! let points = [1e3, 1e5, 1e7].map(|volume| (volume, 10e-6 + volume / 1e9));
//! let line = spec::line::Line::fit(&points).unwrap();
//! assert!((line.overhead_s - 10e-6).abs() < 1e-9 && (line.per_s - 1e9).abs() < 1.0);
//! ```

/// A line that rises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Seconds that nothing at all takes.
    pub overhead_s: f64,
    /// What a second more is enough for: bytes, FLOPs, samples.
    pub per_s: f64,
}

impl Line {
    /// The line through `(volume, seconds)` whose *relative* errors have the least squares, so that small volumes count as
    /// much as large ones. An overhead below 0 becomes 0. `None` where no line rises through the points: fewer than two
    /// volumes, or times that do not grow.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        // Relative errors: each equation a + b·x = t divided by t.
        let (mut aa, mut ab, mut bb, mut at, mut bt) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(volume, seconds) in points.iter().filter(|(_, seconds)| *seconds > 0.0) {
            let (one, x) = (1.0 / seconds, volume / seconds);
            aa += one * one;
            ab += one * x;
            bb += x * x;
            at += one;
            bt += x;
        }
        let first = points.first()?.0;
        if points.iter().all(|(volume, _)| *volume == first) {
            return None;
        }
        let determinant = aa * bb - ab * ab;
        let (mut overhead, mut slope) =
            ((at * bb - ab * bt) / determinant, (aa * bt - ab * at) / determinant);
        if overhead < 0.0 {
            (overhead, slope) = (0.0, bt / bb);
        }
        let rises = overhead.is_finite() && slope.is_finite() && slope > 0.0;
        rises.then(|| Self { overhead_s: overhead, per_s: 1.0 / slope })
    }

    /// The line through the origin that is nearest to the points, by relative errors. `None` where they have no volume or
    /// no time.
    pub fn through_origin(points: &[(f64, f64)]) -> Option<Self> {
        let timed = points.iter().filter(|(_, seconds)| *seconds > 0.0);
        let (bb, bt) = timed.fold((0.0, 0.0), |(bb, bt), (volume, seconds)| {
            let x = volume / seconds;
            (bb + x * x, bt + x)
        });
        let per_s = bb / bt;
        (per_s.is_finite() && per_s > 0.0).then_some(Self { overhead_s: 0.0, per_s })
    }

    /// What so much takes.
    pub fn seconds(&self, volume: f64) -> f64 {
        self.overhead_s + volume / self.per_s
    }

    /// How far the line is from the point that is farthest from it: 0.1 for 10 % of what was measured.
    pub fn worst_error(&self, points: &[(f64, f64)]) -> f64 {
        let errors = points.iter().map(|&(volume, seconds)| (self.seconds(volume) / seconds - 1.0).abs());
        errors.filter(|error| error.is_finite()).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By absolute errors the large size alone would decide, and the overhead be off by many times itself.
    #[test]
    fn small_volumes_count() {
        let line = Line::fit(&[(1e3, 11e-6), (4e3, 14e-6), (1.6e4, 26e-6), (1e8, 0.08)]).unwrap();
        assert!((line.overhead_s - 10e-6).abs() < 2e-6, "{line:?}");
        assert!((0.9e9..1.3e9).contains(&line.per_s), "{line:?}");
    }

    #[test]
    fn an_overhead_is_never_negative() {
        let line = Line::fit(&[(1e3, 1e-6), (1e4, 2e-5), (1e5, 3e-4)]).unwrap();
        assert_eq!(line.overhead_s, 0.0);
        assert!(line.per_s > 0.0);
    }

    #[test]
    fn no_line_without_a_slope() {
        assert_eq!(Line::fit(&[]), None);
        assert_eq!(Line::fit(&[(1e3, 1e-6)]), None);
        assert_eq!(Line::fit(&[(1e3, 1e-6), (1e3, 2e-6)]), None);
        assert_eq!(Line::fit(&[(1e3, 2e-6), (1e4, 1e-6)]), None);
        assert_eq!(Line::fit(&[(1e3, 0.0), (1e4, 0.0)]), None);
    }

    #[test]
    fn one_point_gives_a_line_through_the_origin() {
        let line = Line::through_origin(&[(1e3, 1e-6)]).unwrap();
        assert_eq!((line.overhead_s, line.per_s.round()), (0.0, 1e9));
        assert_eq!(Line::through_origin(&[(0.0, 1e-6)]), None);
        assert_eq!(Line::through_origin(&[(1.0, 0.0)]), None);
        assert_eq!(Line::through_origin(&[]), None);
    }

    #[test]
    fn the_farthest_point_is_the_error() {
        let line = Line { overhead_s: 0.0, per_s: 1.0 };
        assert!((line.worst_error(&[(1.0, 1.0), (1.0, 2.0), (3.0, 2.5)]) - 0.5).abs() < 1e-12);
    }
}
