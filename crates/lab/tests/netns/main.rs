//! Real sockets in network namespaces of their own. Needs root, and fails without.

mod site;
