//! The guards: the checks that keep a late, repeated, doubled or foreign effect from doing harm. Each has a name. A build with the feature
//! `mutations` can leave one out, to show that the tests would notice (docs/FAULT-MODEL.md); `scripts/mutations` does that for each. In
//! other builds a guard's switch is a constant and costs nothing.
//!
//! A guard is named by the thing it protects. Its switch is one more condition of the check, `stands(Guard::X) && …`: leaving it out drops
//! the check, and no code exists for the harm alone.

/// The environment variable that names the guard to leave out, in a build with the feature `mutations`.
pub const SWITCH: &str = "CELLSHIFT_MUTATION";

macro_rules! guards {
    ($($(#[doc = $what:literal])+ $guard:ident = $name:literal,)+) => {
        /// A check without which some fault does harm.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Guard {
            $($(#[doc = $what])+ $guard,)+
        }

        impl Guard {
            /// All guards.
            pub const ALL: &[Guard] = &[$(Guard::$guard),+];

            /// Returns the name in [`SWITCH`], in `scripts/mutations` and in docs/FAULT-MODEL.md.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Guard::$guard => $name,)+
                }
            }
        }
    };
}

guards! {
    /// A database refuses a write under a fence below the highest that has written there.
    DatabaseFence = "database-fence",
    /// A host refuses a request whose fence is below the highest it has obeyed.
    HostFence = "host-fence",
    /// A host refuses a request that was overtaken while it waited for its turn.
    HostTurn = "host-turn",
    /// A higher fence cancels the work that runs for the server.
    Overtaking = "overtaking",
    /// A host makes a fence durable before it acts under it.
    DurableFence = "durable-fence",
    /// A host remembers fences when its guest is gone and it starts again.
    HostMemory = "host-memory",
    /// A host answers a repeated request from its memory.
    RememberedReply = "remembered-reply",
    /// A repeated request joins the one that runs.
    JoinedRequest = "joined-request",
    /// A host acts once for a query that is delivered twice.
    ActOnce = "act-once",
    /// A request without a reply is delivered again.
    DeliveredAgain = "delivered-again",
    /// A request that may be done does not become surely not done by a later delivery's refusal.
    LastingDoubt = "lasting-doubt",
    /// An earlier incarnation of a host begins no more work.
    HostLife = "host-life",
    /// An agent that could not renew its word in time stops its guests.
    SelfFence = "self-fence",
    /// A controller answers the questions of the accepted life of a host's agent alone.
    AgentLife = "agent-life",
    /// The operation that stopped a guest learns, also on a repeat, that the guest ran.
    StopCause = "stop-cause",
    /// A host claims no more room than it has.
    HostRoom = "host-room",
    /// Disks are read only while their guest is off.
    DisksAtRest = "disks-at-rest",
    /// A guest that runs is not defined anew.
    RunningGuest = "running-guest",
    /// Disks arrive as they were sent.
    DiskChecksum = "disk-checksum",
    /// A repeated upload accepts the bytes that it finds only if they are those of the disks.
    UploadedBefore = "uploaded-before",
    /// After its host was away, a guest is started only by the latest attempt.
    LateStart = "late-start",
    /// After its host was away, a guest is started on its owner alone.
    OwnerCheck = "owner-check",
    /// After its host was away, a guest is started only when no operation has the server.
    OwnerAtRest = "owner-at-rest",
    /// After its host was away, a guest is started only if it ran.
    InterruptedGuest = "interrupted-guest",
    /// A host gets a ticket only for bytes that an operation in flight has it move.
    OperationsBytes = "operations-bytes",
    /// The journal is written under the present lease alone.
    JournalLease = "journal-lease",
    /// An owner is named under the present lease alone.
    OwnershipLease = "ownership-lease",
    /// A lease that another controller renews is not taken over.
    LeaseTerm = "lease-term",
    /// A start is refused while another process has the seat.
    SeatTaken = "seat-taken",
    /// A process whose seat's time has passed writes nothing.
    SeatTerm = "seat-term",
    /// A debt that another conductor has paid meanwhile is not paid again.
    StandingDebt = "standing-debt",
    /// A payer that lost its lease cannot release the server, which a later payer may hold.
    HoldLease = "hold-lease",
    /// An owner is named only in place of the owner that is known.
    OwnershipEpoch = "ownership-epoch",
    /// An owner is named under the latest attempt alone.
    OwnershipAttempt = "ownership-attempt",
    /// Each act and each undo begins under an attempt of its own.
    FreshAttempt = "fresh-attempt",
    /// A step in doubt counts as begun: it is undone.
    DoubtfulStep = "doubtful-step",
    /// A pivot in doubt is tried again, not undone.
    DoubtfulPivot = "doubtful-pivot",
    /// An act or undo that failed leaves nothing in its saga's context.
    DiscardedContext = "discarded-context",
    /// Past the pivot no undo is skipped: while the target cannot say that it is fenced, the saga goes forward again.
    TargetsWord = "targets-word",
    /// A target whose guest runs is not left.
    RunningTarget = "running-target",
    /// An undone record of a move leaves its fence behind, so that a late write of the record changes nothing.
    TombstoneOfMigration = "tombstone-of-migration",
    /// An undone build request leaves its fence behind, too.
    TombstoneOfBuild = "tombstone-of-build",
    /// A claim that was given up or moved back leaves its fence behind, too.
    TombstoneOfClaim = "tombstone-of-claim",
    /// A move begins only when the records that it builds upon owe nothing.
    OwedFirst = "owed-first",
    /// An operation begins only in a state that allows it.
    ExpectedState = "expected-state",
    /// The record that users see is never removed as a copy.
    VisibleRecord = "visible-record",
    /// Users' lists of one cell leave hidden copies out.
    HiddenFilter = "hidden-filter",
    /// Lists show, of a server's two records, the one that the mapping names.
    MappingAuthority = "mapping-authority",
    /// A server that moved while a list was read is looked up.
    MovedMeanwhile = "moved-meanwhile",
    /// A debt removes nothing at a place to which the server has come again.
    InUseAgain = "in-use-again",
    /// A debt restores nothing at a place where the server is no longer to run.
    LostOwnership = "lost-ownership",
    /// A debt changes no guest that its user has mended.
    MendedServer = "mended-server",
    /// A server leaves ERROR only when its guest depends on no other debt.
    OtherDebts = "other-debts",
    /// A host's word of a guest's power counts under the fence that was read before it.
    PowerFence = "power-fence",
    /// A guest that its host has lost is not taken for one that went off.
    LostPower = "lost-power",
    /// Placement allocates no more than there is.
    Capacity = "capacity",
    /// A consumer that changed meanwhile is not overwritten.
    ConsumerGeneration = "consumer-generation",
    /// A provider that changed meanwhile is not overwritten.
    ProviderGeneration = "provider-generation",
    /// A repeated change of allocations counts as done.
    RepeatedAllocation = "repeated-allocation",
    /// A volume belongs to one server, unless it is for several.
    VolumeHolder = "volume-holder",
    /// A server reaches a volume from a host through one attachment.
    OneConnector = "one-connector",
    /// An image gets its bytes once.
    ImageOnce = "image-once",
    /// A quota is checked again in the commit that uses it.
    QuotaRecheck = "quota-recheck",
    /// A server group's rule is checked again in the commit that takes a member's place.
    GroupRecheck = "group-recheck",
    /// A live copy pauses its guest before it takes the rest of it.
    PausedCopy = "paused-copy",
    /// A target on which a guest has run since its live migration is not left.
    LiveTargetRan = "live-target-ran",
    /// An operation past its pivot is not cancelled.
    LateCancel = "late-cancel",
    /// A live migration is aborted only in the phases that the caller's version knows.
    AbortPhase = "abort-phase",
    /// A forced end meets only a copy that is under way.
    HastenedCopy = "hastened-copy",
    /// A server is evacuated only from a host that is down.
    EvacuatedHostDown = "evacuated-host-down",
    /// A host that counts as down but lives must say that the guest is off.
    LivingSource = "living-source",
    /// A host that is silent is not evacuated before somebody says that it is off.
    SilentSource = "silent-source",
    /// A host from which servers were evacuated is forced up only when it has been cleaned up.
    CleanedSource = "cleaned-source",
    /// No more operations run at once than the configuration allows.
    OperationsLimit = "operations-limit",
}

/// True if the guard is in force. In this build all are.
#[cfg(not(feature = "mutations"))]
pub const fn stands(_: Guard) -> bool {
    true
}

/// True if the guard is in force: all except the one that [`SWITCH`] names. Panics on an unknown name, and lists all names.
#[cfg(feature = "mutations")]
pub fn stands(guard: Guard) -> bool {
    use std::sync::OnceLock;
    static LEFT_OUT: OnceLock<Option<Guard>> = OnceLock::new();
    let left_out = LEFT_OUT.get_or_init(|| std::env::var(SWITCH).ok().filter(|name| !name.is_empty()).map(|name| named(&name)));
    *left_out != Some(guard)
}

#[cfg(feature = "mutations")]
fn named(name: &str) -> Guard {
    let names: Vec<&str> = Guard::ALL.iter().map(|guard| guard.name()).collect();
    let guard = Guard::ALL.iter().find(|guard| guard.name() == name);
    *guard.unwrap_or_else(|| panic!("{SWITCH} names no guard: {name}; there are {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The root of the repository.
    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

    fn read(file: &str) -> String {
        std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
    }

    /// Returns the path and the text of each source of the program and its crates.
    fn sources() -> Vec<(PathBuf, String)> {
        let mut sources = Vec::new();
        let mut directories = vec![Path::new(ROOT).join("src"), Path::new(ROOT).join("crates")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => directories.push(path),
                    false => sources.push((path.clone(), std::fs::read_to_string(path).unwrap())),
                }
            }
        }
        sources
    }

    /// Returns the text between two marks on their own lines.
    fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
        let (_, rest) = text.split_once(begin).unwrap();
        rest.split_once(end).unwrap().0
    }

    #[test]
    fn each_guard_has_a_mutation_and_a_row_in_the_fault_model() {
        let names: Vec<&str> = Guard::ALL.iter().map(|guard| guard.name()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "each has a name of its own");
        let script = read("scripts/mutations");
        let table = between(&script, "<<'GUARDS'\n", "\nGUARDS\n");
        let tested: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(tested, names);
        let page = read("docs/FAULT-MODEL.md");
        let page_names: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |")).map(|(name, _)| name).collect();
        assert_eq!(page_names, names);
    }

    #[test]
    fn each_guard_is_asked_for_somewhere() {
        let others = sources().into_iter().filter(|(path, _)| !path.ends_with("env/src/guard.rs"));
        let text: String = others.map(|(_, text)| text).collect();
        let is_named = |guard: &Guard| [")", ","].iter().any(|end| text.contains(&format!("Guard::{guard:?}{end}")));
        let absent: Vec<&Guard> = Guard::ALL.iter().filter(|guard| !is_named(guard)).collect();
        assert!(absent.is_empty(), "{absent:?} protect nothing");
    }

    #[test]
    fn leaving_a_guard_out_only_drops_a_condition() {
        let sources = sources();
        let call = ["stands", "(Guard::"].concat();
        let uses: usize = sources.iter().map(|(_, source)| source.matches(&call).count()).sum();
        assert!(uses >= Guard::ALL.len(), "{uses}");
        let harmful = |line: &&str| line.contains(&format!("!{call}")) || (line.contains(&call) && line.contains("} else {"));
        let lines: Vec<&str> = sources.iter().flat_map(|(_, source)| source.lines()).filter(harmful).collect();
        assert_eq!(lines, Vec::<&str>::new());
    }
}
