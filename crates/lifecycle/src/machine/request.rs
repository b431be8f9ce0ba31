//! What a certificate request asks for, taken out of its PEM.

use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use super::csr::Request;

impl Request {
    /// The same, asking for what the PEM says; or why that cannot be read.
    pub fn asking(mut self, pem: &[u8]) -> Result<Self, String> {
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem)
            .map_err(|error| format!("it is not PEM: {error}"))?;
        let (rest, csr) = X509CertificationRequest::from_der(&pem.contents)
            .map_err(|error| format!("it is not a PKCS#10 request: {error}"))?;
        if !rest.is_empty() {
            return Err("something follows the request".to_owned());
        }
        let subject = &csr.certification_request_info.subject;
        let names: Vec<_> = subject
            .iter_common_name()
            .filter_map(|name| name.as_str().ok())
            .collect();
        let [name] = names.as_slice() else {
            return Err("it does not have one common name".to_owned());
        };
        (*name).clone_into(&mut self.common_name);
        self.organizations = subject
            .iter_organization()
            .filter_map(|name| name.as_str().ok())
            .map(str::to_owned)
            .collect();
        for extension in csr.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                for name in &names.general_names {
                    self.other_name(name);
                }
            }
        }
        Ok(self)
    }

    fn other_name(&mut self, name: &GeneralName<'_>) {
        let ip = |bytes: &[u8]| -> Option<IpAddr> {
            if let Ok(four) = <[u8; 4]>::try_from(bytes) {
                return Some(four.into());
            }
            <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
        };
        match name {
            GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => match ip(bytes) {
                Some(address) => self.ips.push(address),
                None => self.other_names += 1,
            },
            _ => self.other_names += 1,
        }
    }
}
