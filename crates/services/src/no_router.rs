//! Tells whoever asks on a link without IPv6 that there is no router, so that nobody waits for one.

use std::net::SocketAddrV6;
use std::time::Duration;

use linux::netlink::Netlink;
use protocols::ra;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use crate::neighbours;

const SEND_WITHIN: Duration = Duration::from_secs(1);
/// The link may be on its way.
const AGAIN: Duration = Duration::from_secs(5);

/// Until told to stop. Nothing depends on it but the time of those who ask, so it never fails: it tries again.
pub async fn run(link: &str, mut stop: watch::Receiver<bool>) {
    let answer = async {
        let mut said = false;
        loop {
            let problem = match open(link).await {
                Ok((socket, index)) => serve(&socket, index).await.to_string(),
                Err(problem) => problem,
            };
            if !said {
                info!(link, problem, "nobody is told that there is no router");
                said = true;
            }
            sleep(AGAIN).await;
        }
    };
    tokio::select! {
        _ = stop.changed() => {}
        () = answer => {}
    }
}

async fn open(link: &str) -> Result<(UdpSocket, u32), String> {
    let netlink = Netlink::connect().map_err(|error| model::chain(&error))?;
    let index = netlink.link(link).await;
    let index = index.map_err(|error| model::chain(&error))?.index;
    let socket = neighbours::socket(link, index).map_err(|error| error.to_string())?;
    Ok((socket, index))
}

async fn serve(socket: &UdpSocket, index: u32) -> std::io::Error {
    let mut packet = [0; 1500];
    let nothing = ra::nothing();
    let everybody = SocketAddrV6::new(ra::ALL_NODES, 0, 0, index);
    loop {
        match socket.recv_from(&mut packet).await {
            Ok((length, _)) if ra::is_solicitation(&packet[..length]) => {
                let sent = timeout(SEND_WITHIN, socket.send_to(&nothing, everybody)).await;
                debug!(?sent, "there is no router");
            }
            Ok(_) => {}
            Err(error) => return error,
        }
    }
}
