//! `cellshift status`: a cloud on one screen.

use std::process::ExitCode;

use clap::Args;

use super::Failure;
use super::output::{ServiceOptions, on_service};
use super::overview::Overview;
use super::progress::patiently;
use super::watch::{Screen, Watch};
use crate::client::OPERATORS;
use crate::env::Env;

/// The service to look at.
#[derive(Args)]
pub(super) struct Status {
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    watch: Watch,
}

/// Prints how the cloud is.
pub(super) fn run(Status { service, watch }: Status) -> Result<ExitCode, Failure> {
    on_service(watch.screens(service, async |client| {
        let overview = patiently("asking the service", Overview::read(client)).await?;
        let address = client.endpoint(OPERATORS).unwrap_or_default();
        let text = overview.text(address, Env::system().now());
        Ok(Screen { answer: overview.answers().clone(), text, remarks: Vec::new() })
    }))
}
