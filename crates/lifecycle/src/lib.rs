//! The life of a server: functions from desired and observed to the next step.

pub mod node;
