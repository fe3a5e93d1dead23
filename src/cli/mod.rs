//! The command line: its options, and one file per subcommand.

mod audit;
mod below;
mod cell;
mod cells;
mod chaos;
mod chaos_service;
mod cluster;
mod compute;
mod configuration;
pub mod data_dir;
mod debts;
mod dev;
mod drain;
mod env;
mod events;
mod explain;
mod heal;
mod host;
mod hosts;
mod manuals;
mod migrations;
mod move_group;
mod names;
mod order;
mod output;
mod overview;
mod populate;
mod progress;
mod purge;
mod purge_lost;
mod queued_deletes;
mod reach;
mod serve;
mod server;
mod servers;
mod simulate;
mod status;
mod sync_aggregates;
mod terminal;
mod token;
mod top;
mod ui;
mod unconfirmed;
mod version;
mod watch;
mod words;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use self::terminal::{complain, say};
use crate::config::{Config, Log, Overrides, Preset};
use crate::env::Env;

/// A multi-cell compute control plane that moves servers between cells and brings them back when anything fails.
#[derive(Parser)]
#[command(version, long_version = version::long(), about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Parses the command line. One that makes no sense is explained on standard error, with the exit code for it.
pub fn parse() -> Result<Cli, ExitCode> {
    if let Some(agent) = compute::parse_alone() {
        return Ok(Cli { command: Command::Compute(agent) });
    }
    Cli::try_parse().map_err(|refused| {
        drop(refused.print());
        let heals = std::env::args().nth(1).is_some_and(|word| word == "heal-allocations");
        ExitCode::from(if refused.use_stderr() && heals { heal::INVALID_LINE } else { u8::try_from(refused.exit_code()).unwrap_or(2) })
    })
}

#[derive(Subcommand)]
enum Command {
    /// Run the service; without configuration, a small multi-cell cloud with everything in it.
    Serve(serve::Serve),
    /// Run a cloud of many processes on this machine: a NATS server and agents for each of two cells, and a controller. All end with it.
    ///
    /// The data directory gets clouds.yaml and policy.yaml as with serve. Needs nats-server (Debian's package nats-server).
    Cluster(cluster::Cluster),
    /// Become a program that the system ends when this command's parent ends.
    #[command(hide = true)]
    Below(below::Below),
    /// Run the agent of a compute host, which obeys the controllers of its cell over NATS.
    Compute(compute::Compute),
    /// Print the variables with which OpenStack's clients find the service of a data directory, for `eval "$(cellshift env)"`.
    Env(env::Env),
    /// Show a demonstration: a cloud of its own, three moves, and a host that dies. It takes under a minute and leaves nothing behind.
    Demo {
        /// Also write the service's log to standard error: error, warn, info, debug, trace, or per module.
        #[arg(long, value_name = "LEVEL")]
        log: Option<String>,
    },
    /// Show the cloud on one screen: what waits for people, and the command that lists it; what is in flight; the cells.
    Status(status::Status),
    /// Open the operators' page in a browser, logged in by a link that works once.
    Ui(ui::Ui),
    /// Keep the cloud on the screen: as status, but live.
    ///
    /// The arrows select an operation, Enter opens its journal, / filters the lists, Esc closes what is open, and q leaves.
    Top(top::Top),
    /// List the cells with their health, servers and room.
    Cells(cells::Cells),
    /// List the hosts with their state, servers and room; or enable, disable, force down or force up many at once.
    ///
    /// Exit codes of a change: 0 if all of these hosts are as requested, and 3 if one could not be changed.
    Hosts(hosts::Hosts),
    /// Enrol, list and remove hosts that are agents of their own.
    Host {
        #[command(subcommand)]
        command: host::Host,
    },
    /// Print what the parts of a cell need.
    Cell {
        #[command(subcommand)]
        command: cell::Cell,
    },
    /// List servers with their cells, hosts, flavors, addresses, projects and states.
    Servers(servers::Servers),
    /// Show all about a server: its place, addresses, image, volumes, ports and moves, and where it could go.
    Server(server::Server),
    /// List the moves of servers, newest first; with --all, all operations.
    Migrations(migrations::Migrations),
    /// Show a migration's journal as a timeline: each try with its offset, outcome, error and a bar, and the pivot.
    Migration(migrations::Migration),
    /// List what operations owe: undos and clean-ups whose participant did not answer.
    Debts(debts::Debts),
    /// List the moves that have arrived and wait for confirm or revert, with the room that they hold.
    Unconfirmed(unconfirmed::Unconfirmed),
    /// List deletes that were accepted and wait.
    QueuedDeletes(queued_deletes::QueuedDeletes),
    /// Print notifications: the newest that the service keeps, or with --follow those that come.
    Events(events::Events),
    /// Explain where a server could move: every host with the rule that refuses it, or with its weights.
    ///
    /// Exit codes: 0 if a host would take the server, and 3 if none would.
    Explain(explain::Explain),
    /// Move all servers off a host or a cell, and follow until the end. The service is disabled there, and stays so.
    ///
    /// Ctrl-C ends the command and not the drain. Exit codes: 0 if every server left, 3 if one did not, and 4 if the command was interrupted.
    /// With --undo: 0 if the drain is undone, wherever its servers are.
    Drain(drain::Drain),
    /// List drains, or show, pause, resume, cancel, undo or follow one.
    Drains(drain::Drains),
    /// Move all members of a server group to one host, together: all of them, or none.
    ///
    /// Running members of the same cell move live, others cold, and are confirmed when the last has arrived. When one cannot go, the others
    /// come back. Exit codes: 0 if all are (or would be) at the target, and 3 if they are not.
    MoveGroup(move_group::MoveGroup),
    /// Give servers in placement the bandwidth and packet rates that their ports ask for, on their own hosts.
    ///
    /// A server that several providers could serve is left for a migration. Exit codes, as in Nova's tool: 0 if all are healed, 1 if more
    /// servers need it than --max-count, 3 if one could not be healed, 4 if nothing was changed (no server needs it, or --dry-run), 6 if a port
    /// could not be changed, 7 if a change could not be undone, 127 for bad input, and 255 if the service cannot be asked.
    HealAllocations(heal::Heal),
    /// Put hosts' resource providers into the aggregates of the hosts where placement lacks them.
    ///
    /// Aggregates that only placement has stay. Exit codes, as Nova's: 0 if no host is left, 4 if a host of an aggregate is in no cell, and 6
    /// if one has no resource provider.
    SyncAggregates(sync_aggregates::Sync),
    /// Report the invariants that do not hold, in a running service or in the data of a stopped one.
    ///
    /// Exit codes: 0 if all hold, 3 if one does not, 4 if none was found broken but a part did not answer, and 5 if there is nothing to
    /// audit, for example because the data directory cannot be used.
    Audit {
        #[command(flatten)]
        service: output::ServiceOptions,
        /// Also read every image, volume and disk, and compare it with its recorded checksum.
        #[arg(long)]
        deep: bool,
        /// Print the report as JSON, as -o json does.
        #[arg(long, hide = true)]
        json: bool,
    },
    /// Simulate the whole cloud from a seed, with faults and in virtual time. A seed replays to an equal trace.
    ///
    /// Exit codes: 0 if every seed was good, and 3 if one was not.
    Simulate(simulate::Simulate),
    /// Run chaos experiments from files, or check the files.
    Chaos {
        #[command(subcommand)]
        command: chaos::Chaos,
    },
    /// Manage the keys that seal tokens.
    Token {
        #[command(subcommand)]
        command: token::Token,
    },
    /// Manage the databases.
    Db {
        #[command(subcommand)]
        command: DbCommand,
    },
    /// Print the configuration in force, as TOML.
    Config(configuration::Show),
    /// Print a script that completes the commands in a shell.
    Completions {
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write manual pages, one for each command.
    Man {
        /// The directory for the pages. It is made if it is missing.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

#[derive(Subcommand)]
enum DbCommand {
    /// Bring all schemas up to date. The service does this too when it starts.
    Migrate(Options),
    /// Complete mappings of an older release in the data of a stopped service: record which servers' delete was requested.
    ///
    /// Can be repeated. Exit codes: 0 if nothing is left to complete, 3 if --max-count was reached, 4 if a cell did not answer and has
    /// mappings left, and 5 if nothing could be done.
    PopulateQueuedForDelete(Populate),
    /// Complete mappings of an older release in the data of a stopped service: record the servers' users.
    ///
    /// Exit codes as in populate-queued-for-delete.
    PopulateUserId(Populate),
    /// Remove records of servers that were deleted long ago, of ended operations and of old history, from the data of a stopped service.
    ///
    /// A running service does this by itself ([retention] in the configuration). Exit codes: 0 if all is removed, 4 if a cell did not
    /// answer, and 5 if nothing could be done.
    Purge(purge::Purge),
    /// Do as purge does, and write the records of each removed server to a file before.
    Archive(purge::Archive),
    /// Remove old files from the data directory's lost+found, where a start keeps files without a record.
    PurgeLost(purge_lost::PurgeLost),
}

/// The extent of a populate command.
#[derive(Args, Clone)]
struct Populate {
    #[command(flatten)]
    place: Place,
    /// The maximum number of mappings to write [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_count: Option<u32>,
}

/// The paths of a service's data and configuration.
#[derive(Args, Clone)]
struct Place {
    /// The directory for everything that must survive a restart [default: cellshift-data].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// A TOML file with any option. `cellshift config` prints the options in force.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Place {
    fn load(self) -> Result<Config, Failure> {
        Ok(Config::load(self.config.as_deref(), Overrides { data_dir: self.data_dir, ..Overrides::default() })?)
    }
}

/// The options of subcommands that start a service or show how it would start.
#[derive(Args, Clone)]
struct Options {
    #[command(flatten)]
    place: Place,
    /// The address to listen on, such as localhost:8774, or :8774 for every IPv4 address [default: 127.0.0.1:8774].
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::config::listen::address)]
    listen: Option<SocketAddr>,
    /// The number of cells beside cell0 [default: the present cells; at the first start 2].
    #[arg(long, value_name = "N")]
    cells: Option<u32>,
    /// The number of simulated hosts per cell [default: the present hosts; in a new cell 2].
    #[arg(long, value_name = "N")]
    hosts_per_cell: Option<u32>,
    /// The names that the first start gives to flavors, image and accounts [default: cellshift].
    #[arg(long, value_enum)]
    preset: Option<Preset>,
}

impl Options {
    fn load(self) -> Result<Config, Failure> {
        let Options { place: Place { data_dir, config }, listen, cells, hosts_per_cell, preset } = self;
        Ok(Config::load(config.as_deref(), Overrides { data_dir, preset, listen, cells, hosts_per_cell })?)
    }
}

/// The reason why a subcommand failed: one sentence for the terminal.
type Failure = Box<dyn std::error::Error>;

/// Runs the subcommand. A failure prints one sentence on standard error and returns a non-zero exit code.
pub fn run(cli: Cli) -> ExitCode {
    // Manual pages are for all users.
    if !matches!(cli.command, Command::Man { .. }) {
        data_dir::create_for_owner_only();
    }
    let done = match cli.command {
        Command::Serve(options) => serve::run(options),
        Command::Cluster(options) => cluster::run(options),
        Command::Below(options) => Err(below::run(&options)),
        Command::Compute(options) => compute::run(options),
        Command::Env(options) => env::run(options),
        Command::Demo { log } => demo(log),
        Command::Status(options) => status::run(options),
        Command::Ui(options) => ui::run(options),
        Command::Top(options) => top::run(options),
        Command::Cells(options) => cells::cells(options),
        Command::Hosts(options) => hosts::run(options),
        Command::Host { command } => host::run(command),
        Command::Cell { command } => cell::run(command),
        Command::Servers(options) => servers::run(options),
        Command::Server(options) => server::run(options),
        Command::Migrations(options) => migrations::list(options),
        Command::Migration(options) => migrations::show(options),
        Command::Debts(options) => debts::run(options),
        Command::Unconfirmed(options) => unconfirmed::run(options),
        Command::QueuedDeletes(options) => queued_deletes::run(options),
        Command::Events(options) => events::run(options),
        Command::Completions { shell } => Ok(manuals::completions(shell)),
        Command::Man { directory } => manuals::pages(&directory),
        Command::Explain(options) => explain::run(options),
        Command::Drain(options) => drain::run(options),
        Command::Drains(options) => drain::manage(options),
        Command::MoveGroup(options) => move_group::run(options),
        Command::HealAllocations(options) => Ok(heal::run(options)),
        Command::SyncAggregates(options) => sync_aggregates::run(options),
        Command::Audit { service, deep, json } => Ok(audit::run(service.reach, deep, json || service.output.is_json())),
        Command::Simulate(options) => simulate::run(&options),
        Command::Chaos { command } => Ok(chaos::run(command)),
        Command::Token { command } => token::run(command),
        Command::Db { command } => match command {
            DbCommand::Migrate(options) => options.load().and_then(migrate_databases),
            DbCommand::PopulateQueuedForDelete(options) => Ok(populate::run(options, populate::What::Deletes)),
            DbCommand::PopulateUserId(options) => Ok(populate::run(options, populate::What::Users)),
            DbCommand::Purge(options) => Ok(purge::run(options, None)),
            DbCommand::Archive(options) => Ok(purge::archive(options)),
            DbCommand::PurgeLost(options) => purge_lost::run(options),
        },
        Command::Config(options) => configuration::run(options),
    };
    terminal::ended(done.unwrap_or_else(|failure| {
        complain!("{failure}");
        ExitCode::FAILURE
    }))
}

/// Disables the log unless it is requested, because the demo tells its story itself.
fn demo(log: Option<String>) -> Result<ExitCode, Failure> {
    crate::logging::init(&Log { level: log.unwrap_or_else(|| "off".into()), ..Log::default() })?;
    actix_rt::System::new().block_on(crate::demo::run())?;
    Ok(ExitCode::SUCCESS)
}

/// Migrates the databases by opening them. Adds the cells that the next start would add, without hosts.
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
