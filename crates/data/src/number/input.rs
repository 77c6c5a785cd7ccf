//! From a number of a dense column to the input of the model.

use spec::schema::{DenseColumn, LearntStep, LearntTransform, Schema, Transform};

/// Rule by which the numbers of a dense column become inputs.
///
/// A number is refused if it is not finite, or if the result of the steps before the first learnt one does not fit into an
/// f32. So every pass over a log refuses the same numbers, whether values were learnt already or not. Results of learnt
/// steps are held within the range of an f32.
#[derive(Clone, Debug)]
pub struct Input {
    kind: Kind,
    missing: f32,
}

#[derive(Clone, Debug)]
enum Kind {
    None,
    Log,
    Steps {
        /// Steps before the first learnt one.
        fixed: Vec<LearntStep>,
        /// Steps from the first learnt one on, if they are known.
        learnt: Vec<LearntStep>,
    },
}

impl Input {
    /// Rules of the dense columns of `schema`. Without `learnt` values, learnt steps and those after them are left out.
    pub fn of(schema: &Schema, learnt: Option<&[LearntTransform]>) -> Vec<Self> {
        let learnt = |index: usize| learnt.and_then(|learnt| learnt.get(index));
        schema.dense.iter().enumerate().map(|(index, column)| Self::new(column, learnt(index))).collect()
    }

    fn new(column: &DenseColumn, learnt: Option<&LearntTransform>) -> Self {
        let kind = match &column.transform {
            Transform::None => Kind::None,
            Transform::Log => Kind::Log,
            transform => {
                let steps = transform.steps().iter().filter(|step| **step != Transform::None);
                let fixed: Vec<_> = steps.map_while(LearntStep::fixed).collect();
                let learnt = learnt.and_then(|learnt| learnt.steps.get(fixed.len()..)).unwrap_or_default();
                Kind::Steps { fixed, learnt: learnt.to_vec() }
            }
        };
        Self { kind, missing: column.missing }
    }

    /// Input for a missing number.
    pub fn missing(&self) -> f32 {
        self.missing
    }

    /// Whether the input is the logarithm of the number, and nothing else.
    #[inline]
    pub(super) fn is_log(&self) -> bool {
        matches!(self.kind, Kind::Log)
    }

    /// Input for `x`; `None` if the number is refused.
    #[inline]
    pub fn number(&self, x: f64) -> Option<f32> {
        // Both are checked, because the maximum hides a NaN, and a number may be too large for an f32.
        let fits = |input: f64| (x.is_finite() && (input as f32).is_finite()).then_some(input);
        match &self.kind {
            Kind::None => fits(x).map(|input| input as f32),
            Kind::Log => fits(LearntStep::Log.apply(x)).map(|input| input as f32),
            Kind::Steps { fixed, learnt } => {
                let input = fits(fixed.iter().fold(x, |x, step| step.apply(x)))?;
                let input = learnt.iter().fold(input, |x, step| step.apply(x));
                Some((input as f32).clamp(f32::MIN, f32::MAX))
            }
        }
    }
}
