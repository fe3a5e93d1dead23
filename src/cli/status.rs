//! `cellshift status`: a cloud on one screen.

use std::process::ExitCode;

use super::Failure;
use super::output::{Asked, on_service};
use super::overview::Overview;
use super::progress::patiently;
use crate::client::OPERATORS;
use crate::env::Env;

/// Prints how the cloud is.
pub(super) fn run(Asked { reach, output }: Asked) -> Result<ExitCode, Failure> {
    on_service(async {
        let client = reach.client().await?;
        let overview = patiently("asking the service", Overview::read(&client)).await?;
        let address = client.endpoint(OPERATORS).unwrap_or_default();
        output.show(overview.answers(), |_| overview.text(address, Env::system().now()))?;
        Ok(ExitCode::SUCCESS)
    })
}
