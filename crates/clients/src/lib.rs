//! Typed clients with timeouts and retries: redfish, ipmi.
