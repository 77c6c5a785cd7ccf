//! Columns of a log by their role in the schema.

use super::Use;
use crate::rows::Reading;
use spec::schema::{IdRule, Schema};

/// One `C` for every column that a schema reads, in the schema's order.
pub(crate) struct Roles<C> {
    /// Labels; none if labels are ignored.
    pub labels: Vec<C>,
    /// Sample weights; `None` if there are none, or if labels and weights are ignored.
    pub weight: Option<C>,
    /// Columns that are kept besides the inputs; `None` for one that the file lacks, if labels are ignored.
    pub kept: Vec<Option<C>>,
    pub dense: Vec<C>,
    pub sparse: Vec<C>,
    /// Weights of each sparse column, if they are in a column of their own.
    pub weights: Vec<Option<C>>,
    /// Column whose text is noted with every row.
    pub noted: Option<C>,
}

/// A column that cannot be read: its name, and what is wrong with it.
pub(crate) struct Unfit {
    pub column: String,
    pub problem: String,
}

impl<C> Roles<C> {
    /// Finds the columns of `schema` by `find`, which is asked for a name, whether it holds lists, and what it is read for.
    pub fn find(
        schema: &Schema,
        reading: &Reading,
        find: impl Fn(&str, bool, Use) -> Result<C, String>,
    ) -> Result<Self, Unfit> {
        let find = |name: &str, list, wanted| {
            find(name, list, wanted).map_err(|problem| Unfit { column: name.into(), problem })
        };
        let labelled = !reading.unlabelled;
        let labels = schema.all_labels().filter(|_| labelled);
        let mut roles = Self {
            labels: labels.map(|label| find(label.column, false, Use::Number)).collect::<Result<_, _>>()?,
            weight: match &schema.weight {
                Some(column) if labelled => Some(find(column, false, Use::Number)?),
                _ => None,
            },
            kept: vec![],
            dense: vec![],
            sparse: vec![],
            weights: vec![],
            noted: reading.column.map(|name| find(name, false, Use::Noted)).transpose()?,
        };
        for column in &schema.keep {
            roles.kept.push(match find(column, false, Use::Noted) {
                Err(_) if reading.unlabelled => None,
                found => Some(found?),
            });
        }
        for dense in &schema.dense {
            roles.dense.push(find(&dense.column, false, Use::Number)?);
        }
        for sparse in &schema.sparse {
            let split = sparse.separator.is_some() || sparse.weight_separator.is_some();
            let wanted = match sparse.ids {
                _ if split => Use::Text,
                IdRule::Buckets => Use::Number,
                IdRule::Hash | IdRule::Vocabulary | IdRule::Index => Use::Id,
            };
            roles.sparse.push(find(&sparse.column, sparse.list, wanted)?);
            // If the ids are in one text, so are the weights.
            let wanted = if sparse.separator.is_some() { Use::Text } else { Use::Number };
            let weights = sparse.weights.as_ref().map(|name| find(name, sparse.list, wanted)).transpose()?;
            roles.weights.push(weights);
        }
        Ok(roles)
    }

    /// Maps every column, and returns the first error.
    pub fn try_map<D, E>(&self, mut make: impl FnMut(&C) -> Result<D, E>) -> Result<Roles<D>, E> {
        let mut optional = |columns: &[Option<C>]| -> Result<Vec<Option<D>>, E> {
            columns.iter().map(|column| column.as_ref().map(&mut make).transpose()).collect()
        };
        let (kept, weights) = (optional(&self.kept)?, optional(&self.weights)?);
        Ok(Roles {
            labels: self.labels.iter().map(&mut make).collect::<Result<_, E>>()?,
            weight: self.weight.as_ref().map(&mut make).transpose()?,
            kept,
            dense: self.dense.iter().map(&mut make).collect::<Result<_, E>>()?,
            sparse: self.sparse.iter().map(&mut make).collect::<Result<_, E>>()?,
            weights,
            noted: self.noted.as_ref().map(&mut make).transpose()?,
        })
    }

    /// Iterates over all columns.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut C> {
        let beside = self.labels.iter_mut().chain(&mut self.weight).chain(&mut self.noted);
        let beside = beside.chain(self.kept.iter_mut().flatten());
        beside.chain(&mut self.dense).chain(&mut self.sparse).chain(self.weights.iter_mut().flatten())
    }
}
