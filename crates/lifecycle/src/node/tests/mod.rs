//! The machine, walked whole; the decider, driven through a small world.

mod flows;
mod power;
mod properties;
mod table;
mod world;
