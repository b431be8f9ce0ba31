//! IPMI 2.0 over a network (RMCP+): the BMC's side, the console's side, and the bytes between them.
//!
//! ```text
//!   UDP datagram
//!   └─ RMCP header                    wire        class ASF (ping) or IPMI
//!      └─ session header, 1.5 or 2.0  wire        sequence, integrity, encryption: crypto
//!         └─ payload                  wire        Open Session, RAKP 1-4, SOL, or a LAN message
//!            └─ LAN message                       network function + command + data
//!
//!   console ── Open Session ─▶ bmc    which cipher suite, session ids
//!           ◀───────────────
//!           ── RAKP 1, 3 ────▶        names and nonces; each proves it knows the password
//!           ◀── RAKP 2, 4 ───
//!           ── commands ─────▶        signed and encrypted with keys from the nonces
//! ```
//!
//! Section numbers in comments are those of the IPMI 2.0 specification, revision 1.1.

pub mod bmc;
pub mod chassis;
pub mod console;
pub mod crypto;
mod window;
pub mod wire;
