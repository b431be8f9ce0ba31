//! How far clocks of NTP servers are from ours (RFC 5905, as SNTP).

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime};

use plan::preflight::Fact;
use tokio::net::UdpSocket;

use super::within;

const LIMIT: Duration = Duration::from_secs(5);
/// From 1900 to 1970.
const EPOCH: i128 = 2_208_988_800;

pub async fn ask(servers: &[String]) -> BTreeMap<String, Fact<i64>> {
    let asked = servers
        .iter()
        .map(|server| async move { (server.clone(), within(LIMIT, offset(server)).await) });
    futures::future::join_all(asked).await.into_iter().collect()
}

/// Milliseconds that the server is ahead of us.
async fn offset(server: &str) -> io::Result<i64> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in tokio::net::lookup_host((server, 123)).await? {
        let any = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        match exchange(&socket).await {
            Ok(offset) => return Ok(offset),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn exchange(socket: &UdpSocket) -> io::Result<i64> {
    let sent = millis(SystemTime::now());
    let mut question = [0; 48];
    question[0] = 0b00_100_011; // no leap second; version 4; a client
    question[40..48].copy_from_slice(&stamp(sent));
    socket.send(&question).await?;
    let mut answer = [0; 128];
    loop {
        let length = socket.recv(&mut answer).await?;
        let received = millis(SystemTime::now());
        match read(&answer[..length], &question) {
            Read::Times { heard, replied } => {
                return Ok(i128::midpoint(heard - sent, replied - received) as i64);
            }
            Read::Unset => return Err(io::Error::other("its own clock is not set")),
            Read::Stranger => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Read {
    /// Milliseconds since 1970.
    Times { heard: i128, replied: i128 },
    /// The server does not know the time either.
    Unset,
    /// No answer to our question.
    Stranger,
}

fn read(bytes: &[u8], question: &[u8; 48]) -> Read {
    let Some(packet) = bytes.first_chunk::<48>() else {
        return Read::Stranger;
    };
    let server = packet[0] & 0b111 == 4;
    // A server gives back the moment we wrote.
    if !server || packet[24..32] != question[40..48] {
        return Read::Stranger;
    }
    let stratum = packet[1];
    if packet[0] >> 6 == 3 || stratum == 0 || stratum > 15 {
        return Read::Unset;
    }
    let at = |offset: usize| {
        let stamp: [u8; 8] = std::array::from_fn(|n| packet[offset + n]);
        unstamp(stamp)
    };
    Read::Times {
        heard: at(32),
        replied: at(40),
    }
}

fn millis(time: SystemTime) -> i128 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_millis() as i128,
        Err(before) => -(before.duration().as_millis() as i128),
    }
}

/// Seconds since 1900, and parts of a second in 2^-32.
fn stamp(millis: i128) -> [u8; 8] {
    let seconds = (millis.div_euclid(1000) + EPOCH) as u32;
    let part = ((millis.rem_euclid(1000) as u64) << 32) / 1000;
    (u64::from(seconds) << 32 | part).to_be_bytes()
}

/// The era is the one that is near: seconds wrap in 2036.
fn unstamp(stamp: [u8; 8]) -> i128 {
    let stamp = u64::from_be_bytes(stamp);
    let (seconds, part) = ((stamp >> 32) as i128, (stamp & 0xffff_ffff) as i128);
    let era = if seconds < EPOCH { 1_i128 << 32 } else { 0 };
    (seconds + era - EPOCH) * 1000 + ((part * 1000 + (1 << 31)) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_survives_the_wire() {
        for millis in [0, 1_780_272_000_123, 2_100_000_000_999] {
            assert_eq!(unstamp(stamp(millis)), millis);
        }
    }

    #[test]
    fn only_an_answer_to_our_question_counts() {
        let mut question = [0; 48];
        question[40..48].copy_from_slice(&stamp(5_000));
        let mut answer = [0; 48];
        answer[0] = 0b00_100_100;
        answer[1] = 2;
        answer[24..32].copy_from_slice(&stamp(5_000));
        answer[32..40].copy_from_slice(&stamp(9_000));
        answer[40..48].copy_from_slice(&stamp(9_001));
        let times = Read::Times {
            heard: 9_000,
            replied: 9_001,
        };
        assert_eq!(read(&answer, &question), times);
        assert_eq!(read(&answer[..40], &question), Read::Stranger);
        let mut unset = answer;
        unset[1] = 0;
        assert_eq!(read(&unset, &question), Read::Unset);
        answer[24] ^= 1;
        assert_eq!(read(&answer, &question), Read::Stranger);
    }

    #[tokio::test]
    async fn the_offset_of_a_server_is_measured() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.connect(server.local_addr().unwrap()).await.unwrap();
        let serve = async {
            let mut buffer = [0; 64];
            let (_, peer) = server.recv_from(&mut buffer).await.unwrap();
            let mut answer = [0; 48];
            answer[0] = 0b00_100_100;
            answer[1] = 1;
            let origin: [u8; 8] = std::array::from_fn(|n| buffer[40 + n]);
            answer[24..32].copy_from_slice(&origin);
            let ahead = stamp(millis(SystemTime::now()) + 60_000);
            answer[32..40].copy_from_slice(&ahead);
            answer[40..48].copy_from_slice(&ahead);
            server.send_to(&answer, peer).await.unwrap();
        };
        let (offset, ()) = tokio::join!(exchange(&client), serve);
        let offset = offset.unwrap();
        assert!((50_000..70_000).contains(&offset), "{offset}");
    }
}
