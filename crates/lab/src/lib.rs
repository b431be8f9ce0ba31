//! A data centre in a box: servers behind BMCs on two networks.
