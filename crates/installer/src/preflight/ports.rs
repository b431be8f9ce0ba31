//! Does anything answer where the bootstrap will be?

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use plan::preflight::Fact;
use tokio::net::TcpStream;

/// On the same network an answer takes milliseconds.
const LIMIT: Duration = Duration::from_secs(2);

pub async fn look(addresses: &[IpAddr], ports: &[u16]) -> BTreeMap<IpAddr, Fact<Vec<u16>>> {
    let looks = addresses.iter().map(|address| async move {
        let tries = ports.iter().map(|port| async move {
            let connect = TcpStream::connect(SocketAddr::new(*address, *port));
            let connected = tokio::time::timeout(LIMIT, connect).await;
            matches!(connected, Ok(Ok(_))).then_some(*port)
        });
        let open = futures::future::join_all(tries).await;
        (*address, Fact::Known(open.into_iter().flatten().collect()))
    });
    futures::future::join_all(looks).await.into_iter().collect()
}
