//! The life of a server: functions from desired and observed to the next step.

pub mod data_image;
pub mod health;
pub mod host;
pub mod machine;
pub mod machine_set;
pub mod node;
pub mod preprovisioning_image;
pub mod subscription;
