//! A state of the model: the server's owner and journal, the hosts, the conductors' memories, and the messages under way.

use crate::setting::{Guard, Setting, WhoIsOff};

/// The ticks after which a host that reaches no controller stops its guests, if hosts fence themselves.
pub(crate) const FENCE_AFTER: u8 = 1;

/// A host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Place {
    Source,
    Target,
}

impl Place {
    /// Both hosts.
    pub const ALL: [Place; 2] = [Place::Source, Place::Target];
}

/// A guest, as its host has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Guest {
    Absent,
    /// Stopped by a command, or never started.
    Off,
    /// Running when its host lost its power or fenced itself, and off since.
    Interrupted,
    Running,
}

/// A command to a host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Command {
    Stop,
    Prepare,
    Start,
    Remove,
    /// Removes a guest that does not run, and refuses each earlier command from then on.
    Fence,
}

/// A host's reply to a command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Reply {
    Done,
    Refused,
    WasRunning,
}

/// A message under way. It may be late, doubled, or never arrive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Message {
    Command {
        to: Place,
        command: Command,
        fence: Fence,
    },
    Reply {
        attempt: u8,
        reply: Reply,
    },
    /// The answer to a host that was away: it may run, or start, the guest.
    MayRun {
        to: Place,
        fence: Fence,
        starts: bool,
    },
}

/// The epoch of the owner, and the attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Fence {
    pub epoch: u8,
    pub attempt: u8,
}

/// A host with its guest, its memory, and what controllers know of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Host {
    pub guest: Guest,
    /// The highest fence that it has obeyed.
    pub fence: Fence,
    pub has_power: bool,
    /// True until a controller has confirmed its first start or run since it came back.
    pub was_away: bool,
    /// True while controllers hear from it.
    pub is_heard: bool,
    /// True once it has said that its guests have ended, until it is heard again.
    pub said_off: bool,
    pub is_forced_down: bool,
    /// The ticks since controllers heard from it, by their clock.
    pub silence: u8,
    /// The ticks since it reached a controller, by its own clock.
    pub unreached: u8,
}

impl Host {
    const fn with(guest: Guest) -> Host {
        Host {
            guest,
            fence: Fence { epoch: 0, attempt: 0 },
            has_power: true,
            was_away: false,
            is_heard: true,
            said_off: false,
            is_forced_down: false,
            silence: 0,
            unreached: 0,
        }
    }

    /// Ends the guest without a command: it asks before it runs again.
    pub(crate) fn interrupt(&mut self) {
        if self.guest == Guest::Running {
            self.guest = Guest::Interrupted;
        }
        self.was_away = true;
    }

    /// Notes that controllers hear from the host, and that it reaches them.
    pub(crate) fn meet(&mut self) {
        (self.is_heard, self.said_off, self.silence, self.unreached) = (true, false, 0, 0);
    }
}

/// The purpose of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// The source stops the guest.
    Move,
    /// The source is off, and may say nothing.
    Evacuation,
}

/// The way that an operation goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    Forward,
    Back,
    /// Past the pivot, to a second one.
    HandBack,
}

/// A step of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// The source stops the guest. Its undo starts the guest again.
    StopSource,
    /// Its undo removes the guest.
    PrepareTarget,
    /// The pivot.
    NameTarget,
    StartTarget,
    Publish,
}

/// The journal of the operation that has the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Journal {
    pub is_live: bool,
    pub kind: Kind,
    pub way: Way,
    pub step: Step,
    pub has_begun: bool,
    pub attempt: u8,
    /// True if an evacuation has gone on without its source's answer.
    pub without_source: bool,
}

impl Journal {
    pub(crate) const fn of(kind: Kind, is_live: bool) -> Journal {
        Journal { is_live, kind, way: Way::Forward, step: Step::StopSource, has_begun: false, attempt: 0, without_source: false }
    }

    /// Returns the command of the step, and its host; none for a step that only writes.
    pub(crate) fn command(&self) -> Option<(Place, Command)> {
        match (self.way, self.step) {
            (Way::Forward, Step::StopSource) => Some((Place::Source, Command::Stop)),
            (Way::Forward, Step::PrepareTarget) => Some((Place::Target, Command::Prepare)),
            (Way::Forward, Step::StartTarget) => Some((Place::Target, Command::Start)),
            (Way::Back, Step::PrepareTarget) => Some((Place::Target, Command::Remove)),
            (Way::Back, Step::StopSource) => Some((Place::Source, Command::Start)),
            (Way::HandBack, _) => Some((Place::Target, Command::Fence)),
            _ => None,
        }
    }

    /// Turns back to the source, which starts the guest again if it has stopped it.
    pub(crate) fn start_source_again(&mut self) {
        (self.way, self.step, self.has_begun) = (Way::Back, Step::StopSource, false);
        self.is_live = !self.without_source;
    }
}

/// A conductor: its lease (0 if it has none), the journal in its memory, and whether its command is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Conductor {
    pub lease: u8,
    pub memory: Journal,
    pub epoch: u8,
    pub has_sent: bool,
}

impl Conductor {
    /// A conductor that can do nothing.
    pub(crate) const IDLE: Conductor = Conductor { lease: 0, memory: Journal::of(Kind::Move, false), epoch: 0, has_sent: true };
}

/// A state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    pub owner: Place,
    pub epoch: u8,
    /// The counter of attempts.
    pub attempts: u8,
    /// The latest lease.
    pub lease: u8,
    pub journal: Journal,
    pub hosts: [Host; 2],
    pub conductors: [Conductor; 2],
    /// In order, each once.
    pub messages: Vec<Message>,
    pub operations_begun: u8,
    pub troubles: u8,
}

impl World {
    /// Returns the first state: the guest runs on the source, which owns the server.
    pub fn first() -> World {
        World {
            owner: Place::Source,
            epoch: 0,
            attempts: 0,
            lease: 0,
            journal: Journal::of(Kind::Move, false),
            hosts: [Host::with(Guest::Running), Host::with(Guest::Absent)],
            conductors: [Conductor::IDLE; 2],
            messages: Vec::new(),
            operations_begun: 0,
            troubles: 0,
        }
    }

    /// Returns a host.
    pub fn host(&self, place: Place) -> &Host {
        &self.hosts[place as usize]
    }

    pub(crate) fn host_mut(&mut self, place: Place) -> &mut Host {
        &mut self.hosts[place as usize]
    }

    pub(crate) fn latest_fence(&self) -> Fence {
        Fence { epoch: self.epoch, attempt: self.attempts }
    }

    /// True if the host counts as off by the rule in force.
    pub(crate) fn is_off(&self, place: Place, setting: &Setting) -> bool {
        let host = self.host(place);
        match setting.off {
            WhoIsOff::BySilence => !host.is_heard,
            WhoIsOff::ByAWord => {
                let has_fenced_itself = setting.self_fence.is_some_and(|margin| host.silence >= FENCE_AFTER + margin);
                host.said_off || (!host.is_heard && (host.is_forced_down || has_fenced_itself))
            }
        }
    }

    pub(crate) fn put(&mut self, message: Message) {
        if let Err(at) = self.messages.binary_search(&message) {
            self.messages.insert(at, message);
        }
    }

    pub(crate) fn take(&mut self, message: Message) {
        self.messages.retain(|other| *other != message);
    }

    /// Drops the answers that a host awaits no longer, because it lost its power or fenced itself.
    pub(crate) fn drop_answers(&mut self, place: Place) {
        self.messages.retain(|message| !matches!(message, Message::MayRun { to, .. } if *to == place));
    }

    /// True if a host refuses a message under this fence, now and for ever.
    pub(crate) fn is_stale(&self, to: Place, fence: Fence, setting: &Setting) -> bool {
        let obeyed = self.host(to).fence;
        fence.epoch < obeyed.epoch || (setting.has(Guard::Fence) && fence < obeyed)
    }

    /// Drops what can have no effect any more: commands that their host refuses for ever, replies that nobody awaits, and the memory of a
    /// conductor without a lease and without a command to send. The search has fewer states by it.
    pub(crate) fn forget_what_is_over(&mut self, setting: &Setting) {
        let (journal, conductors, before) = (self.journal, self.conductors, std::mem::take(&mut self.messages));
        let awaited = |journal: &Journal, attempt: u8| journal.is_live && journal.has_begun && journal.attempt == attempt;
        let counts = |message: &Message| match *message {
            Message::Command { to, fence, .. } | Message::MayRun { to, fence, .. } => !self.is_stale(to, fence, setting),
            Message::Reply { attempt, .. } => {
                let someone = conductors.iter().any(|conductor| awaited(&conductor.memory, attempt));
                awaited(&journal, attempt) || someone || !setting.has(Guard::Counter)
            }
        };
        self.messages = before.into_iter().filter(counts).collect();
        let lease = self.lease;
        for conductor in &mut self.conductors {
            let has_lost = setting.has(Guard::Lease) && conductor.lease > 0 && conductor.lease < lease;
            if has_lost && (conductor.has_sent || !conductor.memory.has_begun) {
                *conductor = Conductor::IDLE;
            }
        }
    }
}
