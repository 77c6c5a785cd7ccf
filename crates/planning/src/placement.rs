//! Placements that are found rather than written: which rank holds which table, so that all have about as much to do.
//!
//! ```
//! use spec::placement::Scheme;
//! use spec::presets::{ModelKind, Preset};
//! use spec::topology::Topology;
//! let model = Preset::Demo.model(ModelKind::Dlrm, None, None).unwrap();
//! let placement = planning::placement::balanced(&model, Topology::new(2, 2).unwrap(), 64);
//! assert_eq!(placement.scheme(5), Scheme::Replicated); // C6 has 20 rows
//! assert!(!placement.owned_by(3).is_empty());
//! ```

mod balanced;
mod in_towers;
mod packing;

pub use balanced::balanced;
pub(crate) use balanced::balanced_layouts;
pub use in_towers::in_towers;
pub(crate) use in_towers::layouts_in_towers;
pub(crate) use packing::columns_over;
