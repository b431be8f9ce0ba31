//! The service root and the small services around it.

use serde_json::{Value, json};

use super::path::{ATTRIBUTES, ROOT, Resource};
use super::{collection, link, messages};
use crate::bmc::Bmc;

pub fn render_versions() -> Value {
    json!({"v1": format!("{ROOT}/")})
}

pub fn render(bmc: &Bmc) -> Value {
    let p = bmc.personality;
    let expand = if p.expand {
        json!({"ExpandAll": true, "Levels": true, "Links": true, "NoLinks": true, "MaxLevels": 1})
    } else {
        json!({"ExpandAll": false, "Levels": false, "Links": false, "NoLinks": false})
    };
    json!({
        "@odata.type": "#ServiceRoot.v1_16_0.ServiceRoot",
        "Id": "RootService",
        "Name": "Root Service",
        "RedfishVersion": "1.18.0",
        "UUID": bmc.server.hardware().uuid.to_string(),
        "Vendor": p.vendor,
        "Product": p.bmc_model,
        "ProtocolFeaturesSupported": {
            "ExpandQuery": expand,
            "FilterQuery": false,
            "SelectQuery": false,
            "OnlyMemberQuery": false,
            "ExcerptQuery": false,
        },
        "Systems": link(bmc, &Resource::Systems),
        "Managers": link(bmc, &Resource::Managers),
        "Chassis": link(bmc, &Resource::Chassises),
        "SessionService": link(bmc, &Resource::SessionService),
        "AccountService": link(bmc, &Resource::AccountService),
        "Tasks": link(bmc, &Resource::TaskService),
        "EventService": link(bmc, &Resource::EventService),
        "UpdateService": link(bmc, &Resource::UpdateService),
        "CertificateService": link(bmc, &Resource::CertificateService),
        "Registries": link(bmc, &Resource::Registries),
        "Links": {"Sessions": link(bmc, &Resource::Sessions)},
    })
}

pub fn render_odata(bmc: &Bmc) -> Value {
    let services = [
        ("Service", Resource::Root),
        ("Systems", Resource::Systems),
        ("Managers", Resource::Managers),
        ("Chassis", Resource::Chassises),
        ("Sessions", Resource::Sessions),
    ];
    let value: Vec<Value> = services
        .into_iter()
        .map(|(name, resource)| json!({"name": name, "kind": "Singleton", "url": resource.path(bmc.personality)}))
        .collect();
    json!({"@odata.context": format!("{ROOT}/$metadata"), "value": value})
}

pub fn render_account_service(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#AccountService.v1_15_1.AccountService",
        "Id": "AccountService",
        "Name": "Account Service",
        "ServiceEnabled": true,
        "MinPasswordLength": 1,
        "Status": {"State": "Enabled", "Health": "OK"},
        "Accounts": link(bmc, &Resource::Accounts),
        "Roles": link(bmc, &Resource::Roles),
    })
}

pub fn render_accounts(bmc: &Bmc) -> Value {
    collection(bmc, "ManagerAccountCollection", "Accounts", &[Resource::Account])
}

pub fn render_account(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#ManagerAccount.v1_12_1.ManagerAccount",
        "Id": "1",
        "Name": "User Account",
        "UserName": bmc.credentials.user,
        "Password": null,
        "RoleId": "Administrator",
        "Enabled": true,
        "Locked": false,
        "AccountTypes": ["Redfish"],
        "Links": {"Role": link(bmc, &Resource::Role)},
    })
}

pub fn render_roles(bmc: &Bmc) -> Value {
    collection(bmc, "RoleCollection", "Roles", &[Resource::Role])
}

pub fn render_role() -> Value {
    json!({
        "@odata.type": "#Role.v1_3_2.Role",
        "Id": "Administrator",
        "Name": "Administrator",
        "RoleId": "Administrator",
        "IsPredefined": true,
        "AssignedPrivileges": ["Login", "ConfigureManager", "ConfigureUsers", "ConfigureSelf", "ConfigureComponents"],
    })
}

pub fn render_certificate_service(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#CertificateService.v1_0_5.CertificateService",
        "Id": "CertificateService",
        "Name": "Certificate Service",
        "Actions": {},
        "CertificateLocations": link(bmc, &Resource::CertificateLocations),
    })
}

pub fn render_certificate_locations() -> Value {
    json!({
        "@odata.type": "#CertificateLocations.v1_0_3.CertificateLocations",
        "Id": "CertificateLocations",
        "Name": "Certificate Locations",
        "Links": {"Certificates": []},
    })
}

pub fn render_registries(bmc: &Bmc) -> Value {
    let files = [Resource::BaseFile, Resource::AttributesFile];
    collection(bmc, "MessageRegistryFileCollection", "Registries", &files)
}

pub fn render_base_file(bmc: &Bmc) -> Value {
    registry_file(bmc, "Base", messages::REGISTRY, Resource::BaseRegistry)
}

pub fn render_attributes_file(bmc: &Bmc) -> Value {
    registry_file(bmc, ATTRIBUTES, ATTRIBUTES, Resource::AttributesRegistry)
}

fn registry_file(bmc: &Bmc, id: &str, registry: &str, at: Resource) -> Value {
    json!({
        "@odata.type": "#MessageRegistryFile.v1_1_4.MessageRegistryFile",
        "Id": id,
        "Name": format!("{id} registry file"),
        "Registry": registry,
        "Languages": ["en"],
        "Location": [{"Language": "en", "Uri": at.path(bmc.personality)}],
    })
}
