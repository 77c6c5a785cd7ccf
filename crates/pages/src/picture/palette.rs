//! Which name has which colour.

use crate::chart::{COLOURS, key};
use std::collections::HashMap;

/// The colours of the style sheet, those first that are told apart most easily.
const ORDER: [usize; COLOURS] = [0, 1, 2, 3, 4, 7, 6, 10, 9, 11, 8, 5];

/// Colours by name, in the order in which names were added. Beyond the palette, colours repeat.
#[derive(Clone, Debug, Default)]
pub struct Palette {
    numbers: HashMap<String, usize>,
}

impl Palette {
    /// Gives a name the next colour, unless it has one.
    pub fn add(&mut self, name: &str) {
        if !self.numbers.contains_key(name) {
            self.numbers.insert(name.into(), self.numbers.len());
        }
    }

    /// The colour of a name, as a number for the class `c…` of the style sheet.
    pub fn colour(&self, name: &str) -> usize {
        self.numbers.get(name).map_or(ORDER[0], |number| ORDER[number % COLOURS])
    }

    /// An entry of the legend for each different name that is not empty, in order. `shape` is a class of swatches.
    pub fn legend<'a>(&self, names: impl Iterator<Item = &'a str>, shape: &str) -> String {
        let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        names.sort_by_key(|name| (self.numbers.get(*name), *name));
        names.dedup();
        names.into_iter().map(|name| key(&format!("c{} {shape}", self.colour(name)), name)).collect()
    }
}

#[cfg(test)]
mod tests;
