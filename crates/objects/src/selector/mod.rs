//! Which objects of a list or watch are meant: label selectors and field selectors.

mod fields;
mod labels;

pub use fields::Fields;
pub use labels::Labels;
