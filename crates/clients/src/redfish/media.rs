//! Virtual media: a CD image at an address, in the server's drive.

use serde_json::{Map, Value, json};
use tracing::debug;

use super::Error;
use super::json::{Resource, list};
use super::talk::Client;

/// A virtual drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub id: String,
    pub path: String,
    pub media_types: Vec<String>,
    pub image: Option<String>,
    pub inserted: bool,
}

impl Slot {
    fn read(slot: &Resource) -> Self {
        let types = list(&slot.body, "/MediaTypes");
        Self {
            id: slot.text_at("/Id").unwrap_or_default().to_string(),
            path: slot.path.clone(),
            media_types: types
                .iter()
                .filter_map(Value::as_str)
                .map(ToString::to_string)
                .collect(),
            image: slot.text_at("/Image").map(ToString::to_string),
            inserted: slot
                .body
                .get("Inserted")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        }
    }

    pub fn takes(&self, medium: Medium) -> bool {
        let names = medium.names();
        self.media_types
            .iter()
            .any(|kind| names.contains(&kind.as_str()))
    }
}

/// What a server takes an image for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    Cd,
    /// A USB stick.
    Disk,
    Floppy,
}

impl Medium {
    pub const ALL: [Self; 3] = [Self::Cd, Self::Disk, Self::Floppy];

    /// What Redfish calls it.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Cd => &["CD", "DVD"],
            Self::Disk => &["USBStick"],
            Self::Floppy => &["Floppy"],
        }
    }

    fn of_no_use(self) -> &'static str {
        match self {
            Self::Cd => "it has no virtual CD drive",
            Self::Disk => "it has no virtual USB stick",
            Self::Floppy => "it has no virtual floppy drive",
        }
    }
}

/// What BMCs ask for beside the image, one refusal at a time.
const INSERT_ROUNDS: usize = 4;
const SERVER_ERROR_TRIES: u32 = 3;

impl Client {
    /// All virtual drives: of the system, or else of its managers.
    pub async fn virtual_media(&self) -> Result<Vec<Slot>, Error> {
        let slots = self.slots("read the virtual media").await?;
        Ok(slots.iter().map(Slot::read).collect())
    }

    pub async fn insert_cd(&self, image: &str) -> Result<Slot, Error> {
        self.insert_medium(Medium::Cd, image).await
    }

    /// Puts an image into a drive that takes it. What is in any drive of the kind is taken out first: what BMCs say
    /// about that shortly after a change cannot be relied upon.
    pub async fn insert_medium(&self, medium: Medium, image: &str) -> Result<Slot, Error> {
        let operation = "insert virtual media";
        let quirks = self.quirks().await?;
        let mut slots = self.slots(operation).await?;
        slots.retain(|slot| Slot::read(slot).takes(medium));
        let rank = |slot: &Resource| {
            let id = slot.text_at("/Id").unwrap_or_default();
            quirks
                .first_slots
                .iter()
                .position(|first| *first == id)
                .unwrap_or(usize::MAX)
        };
        slots.sort_by_key(rank);
        for slot in &slots {
            self.eject_slot(slot).await?;
        }
        let mut refusal = None;
        for slot in &slots {
            match self.insert(operation, slot, image).await {
                Ok(()) => return Ok(Slot::read(&self.get(operation, &slot.path).await?)),
                // Not this one: it is a drive of the remote console alone, or for other media.
                Err(error) if matches!(error.status(), Some(400 | 404 | 405)) => {
                    debug!(bmc = %self.config.address, slot = slot.path, error = model::chain(&error), "another drive is tried");
                    refusal.get_or_insert(error);
                }
                Err(error @ Error::Unsupported { .. }) => _ = refusal.get_or_insert(error),
                Err(error) => return Err(error),
            }
        }
        Err(refusal.unwrap_or_else(|| Error::Unsupported {
            operation,
            url: self.config.address.to_string(),
            why: medium.of_no_use().to_string(),
        }))
    }

    pub async fn eject_cds(&self) -> Result<(), Error> {
        self.eject_media(&[Medium::Cd]).await
    }

    /// Takes out whatever is in any drive of these kinds. A drive that is empty is as good.
    pub async fn eject_media(&self, media: &[Medium]) -> Result<(), Error> {
        for slot in self.slots("eject virtual media").await? {
            let read = Slot::read(&slot);
            if media.iter().any(|medium| read.takes(*medium)) {
                self.eject_slot(&slot).await?;
            }
        }
        Ok(())
    }

    async fn slots(&self, operation: &'static str) -> Result<Vec<Resource>, Error> {
        let system = self.system_resource(operation).await?;
        if let Some(path) = system.link("/VirtualMedia") {
            return self.members(operation, path).await;
        }
        let mut slots = Vec::new();
        for manager in self.managers(operation).await? {
            if let Some(path) = manager.link("/VirtualMedia") {
                slots.extend(self.members(operation, path).await?);
            }
        }
        Ok(slots)
    }

    async fn insert(
        &self,
        operation: &'static str,
        slot: &Resource,
        image: &str,
    ) -> Result<(), Error> {
        let Some(target) = slot.action("#VirtualMedia.InsertMedia") else {
            return self.insert_by_patch(operation, slot, image).await;
        };
        let mut body = Map::from_iter([("Image".to_string(), Value::from(image))]);
        let mut rounds = 0;
        let mut tries = 1;
        loop {
            let Err(error) = self
                .post(operation, target, Some(&Value::Object(body.clone())))
                .await
            else {
                return Ok(());
            };
            match error.status() {
                Some(400 | 422)
                    if rounds < INSERT_ROUNDS && add_what_is_missing(&mut body, &error, image) =>
                {
                    rounds += 1;
                }
                Some(500..) if tries < SERVER_ERROR_TRIES => {
                    tries += 1;
                    tokio::time::sleep(self.limits().pause).await;
                }
                _ => return Err(error),
            }
        }
    }

    async fn insert_by_patch(
        &self,
        operation: &'static str,
        slot: &Resource,
        image: &str,
    ) -> Result<(), Error> {
        let body = json!({"Image": image, "Inserted": true, "WriteProtected": true});
        self.patch(operation, &slot.path, &body).await
    }

    async fn eject_slot(&self, slot: &Resource) -> Result<(), Error> {
        let operation = "eject virtual media";
        let outcome = match slot.action("#VirtualMedia.EjectMedia") {
            Some(target) => match self.post(operation, target, None).await {
                Err(error) if matches!(error.status(), Some(400 | 411 | 415)) => self
                    .post(operation, target, Some(&json!({})))
                    .await
                    .map(drop),
                outcome => outcome.map(drop),
            },
            // Nothing to call and nothing inside: a drive of the remote console.
            None if !Slot::read(slot).inserted => return Ok(()),
            None => {
                self.patch(
                    operation,
                    &slot.path,
                    &json!({"Image": null, "Inserted": false}),
                )
                .await
            }
        };
        match outcome {
            Err(error) if matches!(error.status(), Some(400 | 404 | 405 | 409 | 500..)) => {
                let now = self.get(operation, &slot.path).await?;
                if Slot::read(&now).inserted {
                    Err(error)
                } else {
                    Ok(())
                }
            }
            outcome => outcome,
        }
    }
}

/// Adds to the order what the refusal asks for; false if it asks for nothing we have.
fn add_what_is_missing(body: &mut Map<String, Value>, error: &Error, image: &str) -> bool {
    let protocol = if image.starts_with("https:") {
        "HTTPS"
    } else {
        "HTTP"
    };
    let wanted: [(&str, Value); 5] = [
        ("TransferProtocolType", protocol.into()),
        ("TransferMethod", "Stream".into()),
        ("UserName", "none".into()),
        ("Password", "none".into()),
        ("Inserted", true.into()),
    ];
    let mut added = false;
    for (name, value) in wanted {
        if error.says(name) && !body.contains_key(name) {
            body.insert(name.to_string(), value);
            added = true;
        }
    }
    if added {
        return true;
    }
    // Some say only that something is missing.
    let vague = [
        "ActionParameterMissing",
        "PropertyMissing",
        "CreateFailedMissingReqProperties",
    ];
    if !vague.iter().any(|key| error.says(key)) {
        return false;
    }
    let next = [
        ("TransferProtocolType", protocol),
        ("TransferMethod", "Stream"),
    ];
    let Some((name, value)) = next.into_iter().find(|(name, _)| !body.contains_key(*name)) else {
        return false;
    };
    body.insert(name.to_string(), value.into());
    true
}
