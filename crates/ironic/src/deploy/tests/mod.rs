//! Whole lives of nodes with an agent at the other end of a real connection, and everything that can go wrong with it.

mod agent;
mod lives;
mod pieces;
