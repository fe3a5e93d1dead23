//! The rules that are in force, and the bounds of a search.

/// A rule without which a promise is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// A host refuses a command whose fence is lower than one that it has obeyed.
    Fence,
    /// The server's counter of attempts is never reset.
    Counter,
    /// The journal is written under the present lease alone.
    Lease,
    /// Past the pivot a server goes back only with a word about its target.
    TargetsWord,
    /// A host that was away is not told to run a guest while an operation has the server.
    OwnerAtRest,
    /// After its host was away, a guest is started only by the latest attempt.
    LateStart,
    /// The target is named as the owner before its guest starts.
    OwnerFirst,
}

/// The rule that says whether a host runs no guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhoIsOff {
    /// Its own word, an operator's, or the end of its time to fence itself.
    ByAWord,
    /// A host that does not answer counts as off.
    BySilence,
}

/// The care of the operators who force hosts down. All make sure first that the host is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// Takes the word back before the host is switched on again.
    Careful,
    /// Leaves the word standing while the host comes back.
    Careless,
}

/// The limits of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The number of operations.
    pub operations: u8,
    /// The number of attempts of all operations together.
    pub attempts: u8,
    /// The number of times that a conductor takes the lease.
    pub leases: u8,
    /// The number of cuts and losses of power.
    pub troubles: u8,
}

/// The rules and the bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The guard that is missing; none if all are in force.
    pub left_out: Option<Guard>,
    pub off: WhoIsOff,
    pub operator: Operator,
    /// The margin that controllers add to the time after which hosts fence themselves; none if hosts do not.
    pub self_fence: Option<u8>,
    pub bounds: Bounds,
}

impl Setting {
    /// Returns the rules of this release within these bounds. Hosts do not fence themselves.
    pub fn of_release(bounds: Bounds) -> Setting {
        Setting { left_out: None, off: WhoIsOff::ByAWord, operator: Operator::Careful, self_fence: None, bounds }
    }

    /// True if the guard is in force.
    pub fn has(&self, guard: Guard) -> bool {
        self.left_out != Some(guard)
    }
}
