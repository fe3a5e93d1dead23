//! Tests of the network service.

mod blocks;
mod bounds;
mod cidr;
mod lists;
mod ports;
mod qos;
mod requests;
