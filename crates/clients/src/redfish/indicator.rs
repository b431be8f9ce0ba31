//! The light that shows which server is meant.

use serde_json::{Value, json};

use super::Error;
use super::talk::Client;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Light {
    Off,
    Lit,
    Blinking,
}

impl Light {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::Lit => "Lit",
            Self::Blinking => "Blinking",
        }
    }
}

impl Client {
    /// `None` where the system has no light, or does not say how it is.
    pub async fn light(&self) -> Result<Option<Light>, Error> {
        let system = self.system_resource("read the light").await?;
        Ok(match system.text_at("/IndicatorLED") {
            Some("Off") => Some(Light::Off),
            Some("Lit") => Some(Light::Lit),
            Some("Blinking") => Some(Light::Blinking),
            Some(_) | None => system
                .body
                .get("LocationIndicatorActive")
                .and_then(Value::as_bool)
                .map(|active| if active { Light::Blinking } else { Light::Off }),
        })
    }

    pub async fn set_light(&self, light: Light) -> Result<(), Error> {
        let operation = "set the light";
        let system = self.system_resource(operation).await?;
        // Newer BMCs have the one, older ones the other.
        let body = if system.body.get("IndicatorLED").is_some() {
            json!({"IndicatorLED": light.name()})
        } else if system.body.get("LocationIndicatorActive").is_some() {
            json!({"LocationIndicatorActive": light != Light::Off})
        } else {
            return Err(Error::Unsupported {
                operation,
                url: system.url,
                why: "the system has no light".to_string(),
            });
        };
        self.patch(operation, &system.path, &body).await
    }
}
