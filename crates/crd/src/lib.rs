//! The kinds of Kubernetes objects Plinth serves and follows: hosts, machines, machine sets, provisioning.
//!
//! One file per kind, each a Rust type from which the CustomResourceDefinition follows; [`all`] gives them, [`yaml`]
//! prints them. Groups, versions, field names and enum values are the originals', so that manifests and tools of
//! metal3 and OpenShift work unchanged.
#![allow(
    clippy::duplicated_attributes,
    reason = "columns and rules repeat their keys"
)]

mod definitions;

pub mod bmc_event_subscription;
pub mod data_image;
pub mod firmware_schema;
pub mod hardware;
pub mod hardware_data;
pub mod host;
pub mod host_firmware_components;
pub mod host_firmware_settings;
pub mod host_update_policy;
pub mod infrastructure;
pub mod machine;
pub mod machine_health_check;
pub mod machine_set;
pub mod preprovisioning_image;
pub mod provider_spec;
pub mod provisioning;

pub use bmc_event_subscription::BmcEventSubscription;
pub use data_image::DataImage;
pub use definitions::{all, yaml};
pub use firmware_schema::FirmwareSchema;
pub use hardware_data::HardwareData;
pub use host::BareMetalHost;
pub use host_firmware_components::HostFirmwareComponents;
pub use host_firmware_settings::HostFirmwareSettings;
pub use host_update_policy::HostUpdatePolicy;
pub use infrastructure::Infrastructure;
pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
pub use machine::Machine;
pub use machine_health_check::MachineHealthCheck;
pub use machine_set::MachineSet;
pub use preprovisioning_image::PreprovisioningImage;
pub use provider_spec::BareMetalMachineProviderSpec;
pub use provisioning::Provisioning;
