//! The machine, walked whole; the decider, driven through a small world.

mod flows;
mod properties;
mod table;
mod world;
