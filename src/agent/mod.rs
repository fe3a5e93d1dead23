//! The agent of compute hosts: the program on a machine that runs guests.

pub mod images;
