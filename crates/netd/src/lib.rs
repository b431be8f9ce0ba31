//! Virtual IPs, load balancing and DNS on every node, in one process.
