//! The service root and the small services around it.

use serde_json::{Value, json};

use super::path::{ATTRIBUTES, ROLES, ROOT, Resource};
use super::{base, collection, link};
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
        "Chassis": link(bmc, &Resource::ChassisCollection),
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
        ("Chassis", Resource::ChassisCollection),
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
    collection(
        bmc,
        "ManagerAccountCollection",
        "Accounts",
        &[Resource::Account],
    )
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
        "Links": {"Role": link(bmc, &Resource::Role(0))},
    })
}

pub fn render_roles(bmc: &Bmc) -> Value {
    let roles: Vec<_> = (0..ROLES.len()).map(Resource::Role).collect();
    collection(bmc, "RoleCollection", "Roles", &roles)
}

pub fn render_role(number: usize) -> Value {
    let privileges: [&[&str]; ROLES.len()] = [
        &[
            "Login",
            "ConfigureManager",
            "ConfigureUsers",
            "ConfigureSelf",
            "ConfigureComponents",
        ],
        &["Login", "ConfigureSelf", "ConfigureComponents"],
        &["Login", "ConfigureSelf"],
    ];
    json!({
        "@odata.type": "#Role.v1_3_2.Role",
        "Id": ROLES[number],
        "Name": ROLES[number],
        "RoleId": ROLES[number],
        "IsPredefined": true,
        "AssignedPrivileges": privileges[number],
    })
}

/// The OData metadata document: what the service's root is, for clients that ask it.
pub fn render_metadata() -> String {
    let edmx = "http://docs.oasis-open.org/odata/ns/edmx";
    let edm = "http://docs.oasis-open.org/odata/ns/edm";
    let schema = "http://redfish.dmtf.org/schemas/v1/ServiceRoot_v1.xml";
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<edmx:Edmx xmlns:edmx="{edmx}" Version="4.0">
  <edmx:Reference Uri="{schema}"><edmx:Include Namespace="ServiceRoot.v1_16_0"/></edmx:Reference>
  <edmx:DataServices>
    <Schema xmlns="{edm}" Namespace="Service">
      <EntityContainer Name="Service" Extends="ServiceRoot.v1_16_0.ServiceContainer"/>
    </Schema>
  </edmx:DataServices>
</edmx:Edmx>
"#
    )
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
    registry_file(bmc, "Base", base::REGISTRY, Resource::BaseRegistry)
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
