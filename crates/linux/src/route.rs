//! Routes of the main table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::TryStreamExt;
use ipnet::IpNet;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteScope, RouteType,
};
use rtnetlink::RouteMessageBuilder;

use crate::netlink::{Error, Netlink};

/// A route; `0.0.0.0/0` or `::/0` is the default route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub to: IpNet,
    /// Directly on the link when absent.
    pub via: Option<IpAddr>,
    /// Name of the link; may be left out if the gateway says it.
    pub link: Option<String>,
    /// The gateway is on the link although no address of ours says so.
    pub onlink: bool,
    pub metric: Option<u32>,
}

impl Route {
    pub fn via(to: IpNet, gateway: IpAddr) -> Self {
        Self {
            to,
            via: Some(gateway),
            link: None,
            onlink: false,
            metric: None,
        }
    }

    pub fn on_link(to: IpNet, link: &str) -> Self {
        Self {
            to,
            via: None,
            link: Some(link.to_owned()),
            onlink: false,
            metric: None,
        }
    }

    /// The default route of the gateway's family.
    pub fn default_via(gateway: IpAddr) -> Self {
        let to = match gateway {
            IpAddr::V4(_) => IpNet::new_assert(Ipv4Addr::UNSPECIFIED.into(), 0),
            IpAddr::V6(_) => IpNet::new_assert(Ipv6Addr::UNSPECIFIED.into(), 0),
        };
        Self::via(to, gateway)
    }
}

impl Netlink {
    /// Adds the route; one with the same destination and metric is replaced.
    pub async fn ensure_route(&self, route: &Route) -> Result<(), Error> {
        let message = self.route_message(route).await?;
        let request = self.handle.route().add(message).replace();
        Self::ask(
            || format!("add the route to {}", route.to),
            request.execute(),
        )
        .await
    }

    /// True if there was such a route.
    pub async fn remove_route(&self, route: &Route) -> Result<bool, Error> {
        let message = self.route_message(route).await?;
        let doing = || format!("delete the route to {}", route.to);
        Self::ensure(
            doing,
            &[libc::ESRCH],
            self.handle.route().del(message).execute(),
        )
        .await
    }

    /// The unicast routes of the main table, both families.
    pub async fn routes(&self) -> Result<Vec<Route>, Error> {
        let links = self.links().await?;
        let name = |index: u32| {
            links
                .iter()
                .find(|link| link.index == index)
                .map(|link| link.name.clone())
        };
        let mut routes = Vec::new();
        let families = [
            RouteMessageBuilder::<Ipv4Addr>::new().build(),
            RouteMessageBuilder::<Ipv6Addr>::new().build(),
        ];
        for family in families {
            let all = self
                .handle
                .route()
                .get(family)
                .execute()
                .try_collect::<Vec<_>>();
            let messages = Self::ask(|| "list routes".into(), all).await?;
            routes.extend(messages.iter().filter_map(|message| read(message, name)));
        }
        Ok(routes)
    }

    async fn route_message(&self, route: &Route) -> Result<RouteMessage, Error> {
        let index = match &route.link {
            Some(link) => Some(self.link(link).await?.index),
            None => None,
        };
        let mut message = match route.to.trunc() {
            IpNet::V4(to) => RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(to.addr(), to.prefix_len())
                .build(),
            IpNet::V6(to) => RouteMessageBuilder::<Ipv6Addr>::new()
                .destination_prefix(to.addr(), to.prefix_len())
                .build(),
        };
        if let Some(gateway) = route.via {
            message
                .attributes
                .push(RouteAttribute::Gateway(gateway.into()));
        } else {
            message.header.scope = RouteScope::Link;
        }
        message.attributes.extend(index.map(RouteAttribute::Oif));
        message
            .attributes
            .extend(route.metric.map(RouteAttribute::Priority));
        if route.onlink {
            message
                .header
                .flags
                .insert(netlink_packet_route::route::RouteFlags::Onlink);
        }
        Ok(message)
    }
}

fn read(message: &RouteMessage, name: impl Fn(u32) -> Option<String>) -> Option<Route> {
    let main = message.header.table == RouteHeader::RT_TABLE_MAIN;
    if !main || message.header.kind != RouteType::Unicast {
        return None;
    }
    let unspecified: IpAddr = match message.header.address_family {
        netlink_packet_route::AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        netlink_packet_route::AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let mut route = Route {
        to: IpNet::new(unspecified, 0).ok()?,
        via: None,
        link: None,
        onlink: message
            .header
            .flags
            .contains(netlink_packet_route::route::RouteFlags::Onlink),
        metric: None,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(to) => {
                route.to = IpNet::new(ip(to)?, message.header.destination_prefix_length).ok()?;
            }
            RouteAttribute::Gateway(gateway) => route.via = ip(gateway),
            RouteAttribute::Oif(index) => route.link = name(*index),
            RouteAttribute::Priority(metric) => route.metric = Some(*metric),
            _ => {}
        }
    }
    Some(route)
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}
