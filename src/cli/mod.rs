//! The command line: its options here, one file per subcommand.

mod audit;
mod chaos;
mod chaos_service;
pub mod data_dir;
mod migrations;
mod names;
mod populate;
mod purge_lost;
mod reach;
mod serve;
mod simulate;
mod terminal;
mod token;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use self::terminal::{complain, say};
use crate::config::{Config, Log, Overrides};
use crate::env::Env;

/// A multi-cell compute control plane that moves servers between cells and brings them back when anything fails.
#[derive(Parser)]
#[command(version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service; without configuration, a small multi-cell cloud with everything in it.
    Serve {
        #[command(flatten)]
        options: Options,
        /// Take databases that have moved, or an older release's or backup's that do not say whose they are, for this data
        /// directory's. Those that say they are another deployment's are refused all the same.
        #[arg(long)]
        adopt: bool,
    },
    /// Show what this is: a cloud of its own, three moves, and a host that dies; under a minute, and nothing is left behind.
    Demo {
        /// Also write the service's log to standard error: error, warn, info, debug, trace, or per module.
        #[arg(long, value_name = "LEVEL")]
        log: Option<String>,
    },
    /// List migrations, newest first, of the running service.
    Migrations {
        #[command(flatten)]
        reach: reach::Reach,
        /// Only those of this server: its name, its id, or the beginning of its id.
        #[arg(long)]
        server: Option<String>,
        /// Only those in this state: running, unwinding, done, unwound or needs_operator.
        #[arg(long)]
        status: Option<String>,
    },
    /// Show a migration's journal: each step, attempt, outcome and error.
    Migration {
        /// Its id, or the beginning of it.
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        reach: reach::Reach,
        /// Follow it until it ends.
        #[arg(long)]
        watch: bool,
    },
    /// Say which invariants do not hold, in a running service or in the data of a stopped one.
    ///
    /// Ends with 0 when all hold, 3 when one does not, 4 when none was found broken but something did not answer, and 5 when there
    /// is nothing to audit, such as a data directory that cannot be used.
    Audit {
        #[command(flatten)]
        reach: reach::Reach,
        /// Also read every image, volume and disk, and compare it with what was written to it.
        #[arg(long)]
        deep: bool,
        /// Print the report as JSON, as /ops/v1/audit answers it.
        #[arg(long)]
        json: bool,
    },
    /// Run the whole cloud under a seed, with faults and in virtual time; a seed replays to the same trace.
    ///
    /// Ends with 0 when every seed was good, and 3 when one was not.
    Simulate(simulate::Simulate),
    /// Run chaos experiments from files, or check the files.
    Chaos {
        #[command(subcommand)]
        command: chaos::Chaos,
    },
    /// Work on the keys that seal tokens.
    Token {
        #[command(subcommand)]
        command: token::Token,
    },
    /// Work on the databases.
    Db {
        #[command(subcommand)]
        command: DbCommand,
    },
    /// Print the configuration in force, as TOML.
    Config(Options),
}

#[derive(Subcommand)]
enum DbCommand {
    /// Bring every schema up to date. The service does the same when it starts.
    Migrate(Options),
    /// Fill in, in the data of a stopped service, which servers' delete was asked for, where mappings of an older release do not say.
    ///
    /// May be run again and again. Ends with 0 when nothing is left to fill in, 3 when --max-count was reached, 4 when a cell did not
    /// answer and something is left there, and 5 when nothing could be done.
    PopulateQueuedForDelete(Populate),
    /// Fill in, in the data of a stopped service, whose servers are, where mappings of an older release do not say.
    ///
    /// Ends as populate-queued-for-delete.
    PopulateUserId(Populate),
    /// Remove old files from the data directory's lost+found, where a start keeps files that no record knows.
    PurgeLost(purge_lost::PurgeLost),
}

/// How much is filled in.
#[derive(Args, Clone)]
struct Populate {
    #[command(flatten)]
    place: Place,
    /// Mappings to write at most [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_count: Option<u32>,
}

/// Where a service's data and its configuration are.
#[derive(Args, Clone)]
struct Place {
    /// Where everything that must survive a restart is kept [default: cellshift-data].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// A TOML file with any option; `cellshift config` prints those in force.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Place {
    fn load(self) -> Result<Config, Failure> {
        Ok(Config::load(self.config.as_deref(), Overrides { data_dir: self.data_dir, ..Overrides::default() })?)
    }
}

/// The options of subcommands that start a service or look at how it would start.
#[derive(Args, Clone)]
struct Options {
    #[command(flatten)]
    place: Place,
    /// Where to listen, such as localhost:8774, or :8774 for every IPv4 address [default: 127.0.0.1:8774].
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::config::listen::address)]
    listen: Option<SocketAddr>,
    /// Cells beside cell0 [default: those there are; at the first start 2].
    #[arg(long, value_name = "N")]
    cells: Option<u32>,
    /// Simulated hosts per cell [default: those there are; in a new cell 2].
    #[arg(long, value_name = "N")]
    hosts_per_cell: Option<u32>,
}

impl Options {
    fn load(self) -> Result<Config, Failure> {
        let Options { place: Place { data_dir, config }, listen, cells, hosts_per_cell } = self;
        Ok(Config::load(config.as_deref(), Overrides { data_dir, listen, cells, hosts_per_cell })?)
    }
}

/// Why a subcommand ended without doing its work: one sentence for the terminal.
type Failure = Box<dyn std::error::Error>;

/// Runs the subcommand; what goes wrong is one sentence on standard error and a non-zero exit code.
pub fn run(cli: Cli) -> ExitCode {
    data_dir::create_for_owner_only();
    let done = match cli.command {
        Command::Serve { options, adopt } => options.load().and_then(|config| serve::run(Config { adopt, ..config })),
        Command::Demo { log } => demo(log),
        Command::Migrations { reach, server, status } => migrations::list(reach, server, status),
        Command::Migration { id, reach, watch } => migrations::show(reach, &id, watch),
        Command::Audit { reach, deep, json } => Ok(audit::run(reach, deep, json)),
        Command::Simulate(asked) => simulate::run(&asked),
        Command::Chaos { command } => Ok(chaos::run(command)),
        Command::Token { command } => token::run(command),
        Command::Db { command } => match command {
            DbCommand::Migrate(options) => options.load().and_then(migrate_databases),
            DbCommand::PopulateQueuedForDelete(asked) => Ok(populate::run(asked, populate::What::Deletes)),
            DbCommand::PopulateUserId(asked) => Ok(populate::run(asked, populate::What::Users)),
            DbCommand::PurgeLost(asked) => purge_lost::run(asked),
        },
        Command::Config(options) => options.load().and_then(|config| {
            terminal::out(format_args!("{}", config.without_passwords().to_toml()?));
            Ok(ExitCode::SUCCESS)
        }),
    };
    terminal::ended(done.unwrap_or_else(|failure| {
        complain!("{failure}");
        ExitCode::FAILURE
    }))
}

/// Its log is silent unless asked for: the demo tells its story itself.
fn demo(log: Option<String>) -> Result<ExitCode, Failure> {
    crate::logging::init(&Log { level: log.unwrap_or_else(|| "off".into()), ..Log::default() })?;
    actix_rt::System::new().block_on(crate::demo::run())?;
    Ok(ExitCode::SUCCESS)
}

/// Opening a database migrates it. Cells that the next start would add are added here, without hosts.
fn migrate_databases(config: Config) -> Result<ExitCode, Failure> {
    crate::logging::init(&config.log)?;
    let data = data_dir::DataDir::take_existing(&config.data_dir)?;
    let stored = actix_rt::System::new().block_on(crate::bootstrap::migrate_stored(&config, &Env::system()))?;
    if let Some((_, cell, reason)) = stored.silent_cells.first() {
        return Err(format!("the database of {cell} does not open: {reason}").into());
    }
    let mut cells: Vec<&str> = stored.cells.iter().map(|cell| cell.name.as_str()).collect();
    cells.sort_unstable();
    let cells: String = cells.iter().map(|cell| format!(", {cell}")).collect();
    say!("The databases are up to date: API, services{cells} ({}).", data.path().display());
    Ok(ExitCode::SUCCESS)
}
