//! What is asked of Ironic for each operation, by the state its node is in.

mod adopt;
mod configure;
mod deprovision;
mod inspect;
mod lookup;
pub(super) mod patch;
mod power;
mod prepare;
mod provision;
mod register;
mod remove;
mod service;

pub(super) use power::PowerOff;
