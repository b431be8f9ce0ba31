//! Messages for tests, made by someone else's codec.

use std::net::Ipv4Addr;
use std::time::Instant;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};

#[expect(
    clippy::disallowed_methods,
    reason = "a place for virtual time to start"
)]
pub fn start() -> Instant {
    Instant::now()
}

pub fn name(text: &str) -> Name {
    let mut name = Name::from_ascii(text).unwrap();
    name.set_fqdn(true);
    name
}

pub fn message(asked: &str, kind: u16) -> Message {
    let mut message = Message::new(0x1234, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name(asked), RecordType::from(kind)));
    message
}

pub fn query(asked: &str, kind: u16) -> Vec<u8> {
    message(asked, kind).to_vec().unwrap()
}

/// A response to these bytes, to be filled.
pub fn response(query: &[u8]) -> Message {
    let asked = Message::from_vec(query).unwrap();
    let mut message = Message::response(asked.metadata.id, OpCode::Query);
    message.metadata.recursion_available = true;
    message.queries = asked.queries;
    message
}

pub fn answer_to(query: &[u8], ttl: u32) -> Vec<u8> {
    let mut message = response(query);
    let owner = message.queries[0].name().clone();
    let data = RData::A(A(Ipv4Addr::new(198, 51, 100, 7)));
    message.add_answer(Record::from_rdata(owner, ttl, data));
    message.to_vec().unwrap()
}
