//! `cellshift ui`: opens the operators' page in a browser, logged in.

use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use super::Failure;
use super::output::on_service;
use super::reach::{Login, Reach};
use super::terminal::say;
use crate::client::{Client, OPERATORS};

/// The programs that open an address in the user's browser, on Linux and on macOS.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// The service whose page is opened.
#[derive(Args)]
pub(super) struct Ui {
    #[command(flatten)]
    reach: Reach,
    /// Print the address only. It logs in whoever opens it first.
    #[arg(long)]
    print: bool,
}

/// Opens the page, or prints its address where no browser can be opened.
pub(super) fn run(options: Ui) -> Result<ExitCode, Failure> {
    on_service(async {
        let login = options.reach.login()?;
        // The link would end a token that the caller needs.
        if matches!(login, Login::Token { token: Some(_), .. }) {
            return Err("--token: the page needs a user's credentials; name a cloud with --os-cloud, or a data directory".into());
        }
        let address = address(&login.client().await?)?;
        if options.print || !opened(&address) {
            say!("{address}");
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns the address that logs in once. Browsers send no server what follows the `#`.
pub(super) fn address(client: &Client) -> Result<String, Failure> {
    let operators = client.endpoint(OPERATORS).ok_or("the service has no operators' API")?;
    let root = operators.trim_end_matches("/ops/v1");
    let login = client.token().map(|token| format!("#login={token}")).unwrap_or_default();
    Ok(format!("{root}/ui/{login}"))
}

/// True if a program took the address.
fn opened(address: &str) -> bool {
    let has_screen = cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let open = |program: &&str| {
        let mut command = Command::new(program);
        let status = command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    has_screen && OPENERS.iter().any(open)
}
