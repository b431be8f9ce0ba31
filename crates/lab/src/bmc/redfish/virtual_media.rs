//! Virtual media: slots that look as the vendor's do, one of which is the chassis' drive.

use std::sync::Arc;

use model::Secret;
use serde_json::{Value, json};

use super::body::{Body, Said};
use super::messages::{self as m, Problem};
use super::path::{Action, Resource};
use super::{Answer, collection, link, tasks, tell, vendor};
use crate::bmc::Bmc;
use crate::bmc::media::{Address, AddressError, FetchError, Wanted};
use crate::bmc::personality::{Insert, Slot};
use crate::fault::Kind;
use crate::server::Event;
use crate::server::chassis::Media;

pub fn render_all(bmc: &Bmc) -> Value {
    let slots: Vec<_> = (0..bmc.personality.media.slots.len())
        .map(Resource::Slot)
        .collect();
    collection(bmc, "VirtualMediaCollection", "Virtual Media", &slots)
}

pub fn render(bmc: &Bmc, slot: usize) -> Value {
    let number = slot;
    let slot = &bmc.personality.media.slots[slot];
    let media = inserted(bmc, slot);
    let address = media
        .as_ref()
        .and_then(|media| Address::parse(&media.url).ok());
    let memory = bmc.memory();
    let mut json = json!({
        "@odata.type": "#VirtualMedia.v1_6_2.VirtualMedia",
        "Id": slot.id,
        "Name": "Virtual Media",
        "MediaTypes": slot.media_types,
        "Image": media.as_ref().map(|media| &media.url),
        "ImageName": address.as_ref().map(Address::file_name),
        "Inserted": media.is_some(),
        "WriteProtected": media.as_ref().is_none_or(|media| media.write_protected),
        "ConnectedVia": if media.is_some() { "URI" } else { "NotConnected" },
        "TransferMethod": media.as_ref().map(|_| "Stream"),
        "TransferProtocolType": address.map(|address| if address.is_https() { "HTTPS" } else { "HTTP" }),
        "UserName": media.as_ref().and(memory.media_user.as_ref()),
        "Password": null,
        "VerifyCertificate": memory.verify_certificate,
        "Status": {"State": "Enabled", "Health": "OK"},
        "Certificates": link(bmc, &Resource::SlotCertificates(number)),
    });
    if slot.insert != Insert::Patch {
        json["Actions"] = json!({
            "#VirtualMedia.InsertMedia": {
                "target": Resource::Action(Action::Insert(number)).path(bmc.personality),
                "TransferProtocolType@Redfish.AllowableValues": PROTOCOLS,
            },
            "#VirtualMedia.EjectMedia": {"target": Resource::Action(Action::Eject(number)).path(bmc.personality)},
        });
    }
    json
}

fn inserted(bmc: &Bmc, slot: &Slot) -> Option<Media> {
    match slot.insert {
        Insert::Action | Insert::Patch => bmc.server.view().media,
        Insert::Never => None,
    }
}

const PROTOCOLS: [&str; 2] = ["HTTP", "HTTPS"];

/// An image to insert, read from a request.
#[derive(Debug)]
struct Order {
    address: Address,
    write_protected: bool,
    user: Option<String>,
    password: Option<Secret<String>>,
    /// From now on, if it is said.
    verify_certificate: Option<bool>,
}

/// Takes what both ways of inserting have in common, the image apart.
fn read_order(body: &mut Body, image: Option<&str>) -> Result<Option<Order>, Problem> {
    let write_protected = body.flag("WriteProtected").unwrap_or(true);
    let user = body.nullable_text("UserName").text().map(String::from);
    let password = body.secret("Password");
    body.one_of("TransferMethod", &["Stream", "Upload"]);
    let protocol = body.one_of("TransferProtocolType", &PROTOCOLS);
    let Some(image) = image else { return Ok(None) };
    let address = match Address::parse(image) {
        Ok(address) => address,
        Err(error @ AddressError::Scheme(_)) => {
            let scheme = image.split(':').next().unwrap_or_default();
            return Err(
                Problem::new(&m::SOURCE_PROTOCOL, &[image, scheme]).because(format!("{error}."))
            );
        }
        Err(error @ AddressError::Parse(_)) => {
            body.malformed("Image", image, &model::chain(&error));
            return Ok(None);
        }
    };
    let fitting = if address.is_https() { "HTTPS" } else { "HTTP" };
    if let Some(protocol) = protocol.filter(|protocol| protocol != fitting) {
        body.malformed(
            "TransferProtocolType",
            &protocol,
            &format!("The image is fetched by {fitting}"),
        );
    }
    Ok(Some(Order {
        address,
        write_protected,
        user,
        password,
        verify_certificate: None,
    }))
}

pub async fn insert(bmc: &Arc<Bmc>, slot: usize, mut body: Body) -> Result<Answer, Problem> {
    let p = bmc.personality;
    let slot = &p.media.slots[slot];
    match slot.insert {
        Insert::Action => {}
        Insert::Patch | Insert::Never => {
            return Err(Problem::new(
                &m::ACTION_NOT_SUPPORTED,
                &[Action::Insert(0).name()],
            ));
        }
    }
    licensed(bmc)?;
    body.require("Image");
    for needed in p.insert_needs {
        body.require(needed);
    }
    let image = body.text("Image");
    if body.flag("Inserted") == Some(false) {
        body.malformed("Inserted", "false", "An image that is fetched is inserted");
    }
    let order = read_order(&mut body, image.as_deref())?;
    body.finish(&Value::Null)?;
    let Some(order) = order else {
        return Err(Problem::new(
            &m::PARAMETER_MISSING,
            &["InsertMedia", "Image"],
        ));
    };
    if let Some(no) = p
        .slot_occupied
        .filter(|_| bmc.server.view().media.is_some())
    {
        return Err(vendor(&no));
    }
    if p.insert_is_task {
        let worker = Arc::clone(bmc);
        return tasks::start(
            bmc,
            "Insert Media",
            async move { put_in(&worker, order).await },
        );
    }
    put_in(bmc, order).await?;
    Ok(Answer::no_content())
}

pub async fn eject(bmc: &Bmc, slot: usize, body: Body) -> Result<Answer, Problem> {
    let p = bmc.personality;
    let slot = &p.media.slots[slot];
    body.finish(&Value::Null)?;
    if slot.insert == Insert::Patch {
        return Err(Problem::new(
            &m::ACTION_NOT_SUPPORTED,
            &[Action::Eject(0).name()],
        ));
    }
    match (inserted(bmc, slot), p.slot_empty) {
        (Some(_), _) => take_out(bmc).await?,
        (None, Some(no)) => return Err(vendor(&no)),
        (None, None) => {}
    }
    Ok(Answer::no_content())
}

pub async fn change(bmc: &Bmc, slot: usize, mut body: Body, known: &Value) -> Result<(), Problem> {
    let slot = &bmc.personality.media.slots[slot];
    let verify = body.flag("VerifyCertificate");
    let image = body.nullable_text("Image");
    let wants_inserted = body.flag("Inserted");
    let mut order = read_order(&mut body, image.text())?;
    body.finish(known)?;
    if let Some(order) = &mut order {
        order.verify_certificate = verify;
    }
    if order.is_some() || image == Said::Null || wants_inserted.is_some() {
        if slot.insert == Insert::Never {
            return Err(Problem::new(&m::PROPERTY_NOT_WRITABLE, &["Image"]));
        }
        licensed(bmc)?;
    }
    if let (Some(verify), None) = (verify, &order) {
        bmc.memory().verify_certificate = verify;
    }
    match (order, image, wants_inserted) {
        (Some(order), _, _) => put_in(bmc, order).await,
        (None, Said::Null, _) | (None, Said::Nothing, Some(false)) => take_out(bmc).await,
        (None, Said::Text(_) | Said::Nothing, _) => Ok(()),
    }
}

fn licensed(bmc: &Bmc) -> Result<(), Problem> {
    match bmc.personality.unlicensed {
        Some(no) if !bmc.licensed => Err(vendor(&no)),
        Some(_) | None => Ok(()),
    }
}

async fn put_in(bmc: &Bmc, order: Order) -> Result<(), Problem> {
    let _drive = bmc
        .drive
        .try_lock()
        .map_err(|_| Problem::new(&m::RESOURCE_IN_USE, &[]))?;
    let verify_certificate = order
        .verify_certificate
        .unwrap_or(bmc.memory().verify_certificate);
    let corrupt = bmc.server.faults().hits(Kind::CorruptsTransfer);
    let wanted = Wanted {
        address: &order.address,
        user: order.user.as_deref(),
        password: order.password.as_ref(),
        verify_certificate,
        corrupt,
    };
    let file = bmc
        .fetcher
        .fetch(&wanted)
        .await
        .map_err(|error| not_fetched(&error))?;
    let before = bmc.server.view().media;
    let media = Media {
        url: order.address.to_string(),
        file: file.clone(),
        write_protected: order.write_protected,
    };
    if let Err(problem) = tell(bmc, Event::Insert(media)).await {
        bmc.fetcher.discard(&file).await;
        return Err(problem);
    }
    {
        let mut memory = bmc.memory();
        memory.media_user = order.user;
        memory.verify_certificate = verify_certificate;
    }
    if let Some(before) = before {
        bmc.fetcher.discard(&before.file).await;
    }
    Ok(())
}

async fn take_out(bmc: &Bmc) -> Result<(), Problem> {
    let _drive = bmc
        .drive
        .try_lock()
        .map_err(|_| Problem::new(&m::RESOURCE_IN_USE, &[]))?;
    let Some(media) = bmc.server.view().media else {
        return Ok(());
    };
    tell(bmc, Event::Eject).await?;
    bmc.fetcher.discard(&media.file).await;
    Ok(())
}

/// What a client is told about an image that could not be had.
pub fn not_fetched(error: &FetchError) -> Problem {
    let cause = format!("{}.", model::chain(error));
    let problem = match error {
        FetchError::Connect { url, .. }
        | FetchError::BrokeOff { url, .. }
        | FetchError::TooSlow { url, .. } => Problem::new(&m::COULD_NOT_CONNECT, &[url]),
        FetchError::Status { .. } | FetchError::TooLarge { .. } => Problem::new(
            &m::PARAMETER_VALUE_ERROR,
            &["Image", Action::Insert(0).name()],
        ),
        FetchError::NoRoom { .. } => Problem::new(&m::INSUFFICIENT_STORAGE, &[]),
        FetchError::Write { .. } => Problem::new(&m::INTERNAL_ERROR, &[]),
    };
    problem.because(cause)
}

pub fn render_certificates(bmc: &Bmc) -> Value {
    collection(bmc, "CertificateCollection", "Certificates", &[])
}
