//! cellshift: a multi-cell compute control plane that speaks the OpenStack Compute API.

pub mod actors;
pub mod bootstrap;
pub mod chaos;
pub mod cli;
pub mod client;
pub mod config;
pub mod db;
pub mod demo;
pub mod domain;
pub mod env;
pub mod http;
pub mod launch;
pub mod logging;
pub mod saga;
pub mod services;
pub mod virt;
