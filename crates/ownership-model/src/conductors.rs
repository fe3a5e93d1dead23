//! The acts of conductors: they begin operations, take leases, send commands, and write the journal by what they read.

use crate::events::Event;
use crate::explore::Next;
use crate::setting::{Guard, Setting, WhoIsOff};
use crate::world::{Conductor, Fence, Journal, Kind, Message, Place, Reply, Step, Way, World};

impl World {
    /// Adds the states in which an operation has begun. An evacuation begins only if its source is off, or was forced down and is asked itself.
    pub(crate) fn operations_begin(&self, setting: &Setting, next: &mut Next) {
        if self.journal.is_live || self.operations_begun == setting.bounds.operations || self.owner != Place::Source {
            return;
        }
        let source = self.host(Place::Source);
        let stops_it_itself = setting.off == WhoIsOff::ByAWord && source.is_heard && source.is_forced_down;
        let may_move = source.is_heard && !source.is_forced_down;
        let may_evacuate = self.is_off(Place::Source, setting) || stops_it_itself;
        for (kind, may_begin) in [(Kind::Move, may_move), (Kind::Evacuation, may_evacuate)] {
            if !may_begin {
                continue;
            }
            let mut world = self.clone();
            world.operations_begun += 1;
            world.journal = Journal::of(kind, true);
            if !setting.has(Guard::Counter) {
                world.attempts = 0;
            }
            for conductor in &mut world.conductors {
                if conductor.lease > 0 && conductor.lease == world.lease {
                    *conductor = Conductor { memory: world.journal, epoch: world.epoch, has_sent: false, ..*conductor };
                }
            }
            next.add(Event::OperationBegins(kind), world);
        }
    }

    /// Adds the states in which a conductor has done something.
    pub(crate) fn conductors_work(&self, setting: &Setting, next: &mut Next) {
        for number in 0..self.conductors.len() {
            if self.journal.is_live && self.lease < setting.bounds.leases {
                let mut world = self.clone();
                world.lease += 1;
                let (lease, memory, epoch) = (world.lease, world.journal, world.epoch);
                // The last command may be at work: its step is in doubt, and a new attempt comes first.
                world.conductors[number] = Conductor { lease, memory, epoch, has_sent: true };
                next.add(Event::LeaseTaken(number), world);
            }
            let Conductor { lease, memory, has_sent, .. } = self.conductors[number];
            if lease == 0 || !memory.is_live {
                continue;
            }
            match memory.command() {
                _ if !memory.has_begun => self.next_step(number, setting, next),
                Some((to, command)) if !has_sent => {
                    let mut world = self.clone();
                    let fence = Fence { epoch: self.conductors[number].epoch, attempt: memory.attempt };
                    world.put(Message::Command { to, command, fence });
                    world.conductors[number].has_sent = true;
                    next.add(Event::CommandSent(number, to, command), world);
                }
                Some(_) => {
                    self.replies_are_read(number, setting, next);
                    self.goes_on_unanswered(number, setting, next);
                }
                None => {}
            }
        }
    }

    /// Begins the step's attempt, or writes what the step is.
    fn next_step(&self, number: usize, setting: &Setting, next: &mut Next) {
        let memory = self.conductors[number].memory;
        match (memory.way, memory.step) {
            (Way::Forward, Step::NameTarget) => self.write(number, setting, next, Event::OwnerNamed(number, Place::Target), |world| {
                world.name_owner(Place::Target);
                world.journal.step = Step::StartTarget;
            }),
            (Way::Forward, Step::Publish) => {
                self.write(number, setting, next, Event::OperationEnds(number), |world| world.journal.is_live = false);
            }
            _ => self.begins_attempt(number, setting, next),
        }
    }

    fn begins_attempt(&self, number: usize, setting: &Setting, next: &mut Next) {
        if self.attempts < setting.bounds.attempts {
            self.write(number, setting, next, Event::AttemptBegins(number), |world| {
                world.attempts += 1;
                (world.journal.has_begun, world.journal.attempt) = (true, world.attempts);
            });
        }
    }

    fn replies_are_read(&self, number: usize, setting: &Setting, next: &mut Next) {
        let memory = self.conductors[number].memory;
        for reply in [Reply::Done, Reply::Refused, Reply::WasRunning] {
            let message = Message::Reply { attempt: memory.attempt, reply };
            if !self.messages.contains(&message) {
                continue;
            }
            self.write(number, setting, next, Event::ReplyRead(number, reply), |world| {
                world.take(message);
                world.journal.has_begun = false;
                world.follow(reply, setting);
            });
        }
    }

    /// Writes what follows of a reply to the step's command.
    fn follow(&mut self, reply: Reply, setting: &Setting) {
        let is_owner_first = setting.has(Guard::OwnerFirst);
        match (self.journal.way, self.journal.step, reply) {
            (Way::Forward, Step::StopSource, Reply::Done) => self.journal.step = Step::PrepareTarget,
            (Way::Forward, Step::PrepareTarget, Reply::Done) if is_owner_first => self.journal.step = Step::NameTarget,
            (Way::Forward, Step::PrepareTarget, Reply::Done) => self.journal.step = Step::StartTarget,
            (Way::Forward, Step::StartTarget, Reply::Done) => {
                if !is_owner_first {
                    self.name_owner(Place::Target);
                }
                self.journal.step = Step::Publish;
            }
            (Way::Forward, Step::StartTarget, _) if is_owner_first => self.journal.way = Way::HandBack,
            (Way::Forward, Step::StartTarget, _) => (self.journal.way, self.journal.step) = (Way::Back, Step::PrepareTarget),
            (Way::Forward, _, _) => self.journal.way = Way::Back,
            (Way::Back, Step::PrepareTarget, _) => self.journal.start_source_again(),
            (Way::Back, _, Reply::Done) => self.journal.is_live = false,
            (Way::Back, _, _) => {}
            (Way::HandBack, _, Reply::WasRunning) => (self.journal.way, self.journal.step) = (Way::Forward, Step::Publish),
            (Way::HandBack, _, _) => {
                self.name_owner(Place::Source);
                self.journal.start_source_again();
            }
        }
    }

    /// Adds the states in which a conductor waits no longer: it asks again under a new attempt, goes on without the answer of a host that is off,
    /// or turns back.
    fn goes_on_unanswered(&self, number: usize, setting: &Setting, next: &mut Next) {
        self.begins_attempt(number, setting, next);
        let memory = self.conductors[number].memory;
        let back = Event::TurnedBack(number);
        match (memory.way, memory.step) {
            (Way::Forward, Step::StopSource) => {
                self.write(number, setting, next, back, |world| (world.journal.way, world.journal.has_begun) = (Way::Back, false));
                if memory.kind == Kind::Evacuation && self.is_off(Place::Source, setting) {
                    self.write(number, setting, next, Event::WentOnWithout(number, Place::Source), |world| {
                        (world.journal.step, world.journal.has_begun) = (Step::PrepareTarget, false);
                        world.journal.without_source = true;
                    });
                }
            }
            (Way::Forward, Step::PrepareTarget) => {
                self.write(number, setting, next, back, |world| (world.journal.way, world.journal.has_begun) = (Way::Back, false));
            }
            (Way::Forward, Step::StartTarget) => self.write(number, setting, next, back, |world| world.turn_back_past_pivot(setting)),
            // The removal at the target is owed.
            (Way::Back, Step::PrepareTarget) => {
                self.write(number, setting, next, back, |world| world.journal.start_source_again());
            }
            // The start at the source is owed: its command may still arrive.
            (Way::Back, Step::StopSource) => {
                self.write(number, setting, next, Event::OperationEnds(number), |world| world.journal.is_live = false);
            }
            (Way::HandBack, _) if self.is_off(Place::Target, setting) => {
                self.write(number, setting, next, Event::WentOnWithout(number, Place::Target), |world| {
                    world.name_owner(Place::Source);
                    world.journal.start_source_again();
                });
            }
            _ => {}
        }
    }

    fn turn_back_past_pivot(&mut self, setting: &Setting) {
        self.journal.has_begun = false;
        match (setting.has(Guard::OwnerFirst), setting.has(Guard::TargetsWord)) {
            (false, _) => (self.journal.way, self.journal.step) = (Way::Back, Step::PrepareTarget),
            (true, true) => self.journal.way = Way::HandBack,
            (true, false) => {
                self.name_owner(Place::Source);
                self.journal.start_source_again();
            }
        }
    }

    fn name_owner(&mut self, place: Place) {
        self.owner = place;
        self.epoch += 1;
    }

    /// Adds the state in which the conductor has written the journal, as it knew it, with this change. A conductor without the lease cannot.
    fn write(&self, number: usize, setting: &Setting, next: &mut Next, event: Event, change: impl FnOnce(&mut World)) {
        if setting.has(Guard::Lease) && self.conductors[number].lease != self.lease {
            return;
        }
        let mut world = self.clone();
        world.journal = self.conductors[number].memory;
        change(&mut world);
        let (memory, epoch) = (world.journal, world.epoch);
        let conductor = &mut world.conductors[number];
        (conductor.memory, conductor.epoch, conductor.has_sent) = (memory, epoch, false);
        next.add(event, world);
    }
}
