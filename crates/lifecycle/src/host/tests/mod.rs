//! Tables and stories of a host: one sentence per test.

mod firmware;
mod given;
mod leaving;
mod power;
mod registering;
mod rules;
mod table;
mod working;
