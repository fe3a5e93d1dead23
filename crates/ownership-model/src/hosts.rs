//! The acts of hosts, and the faults that befall them.

use crate::events::Event;
use crate::explore::Next;
use crate::setting::{Guard, Operator, Setting};
use crate::world::{Command, FENCE_AFTER, Fence, Guest, Message, Place, Reply, World};

impl World {
    /// Adds the states in which a message has arrived at its host.
    pub(crate) fn messages_arrive(&self, setting: &Setting, next: &mut Next) {
        for message in &self.messages {
            match *message {
                Message::Command { to, command, fence } if self.host(to).has_power => {
                    self.command_arrives(*message, (to, command, fence), setting, next);
                }
                Message::MayRun { to, fence, starts } => self.answer_arrives(*message, (to, fence, starts), setting, next),
                Message::Command { .. } | Message::Reply { .. } => {}
            }
        }
    }

    fn command_arrives(&self, message: Message, (to, command, fence): (Place, Command, Fence), setting: &Setting, next: &mut Next) {
        if self.is_stale(to, fence, setting) {
            return;
        }
        let host = self.host(to);
        if command == Command::Start && host.was_away && setting.has(Guard::LateStart) {
            self.start_is_in_question(message, (to, fence), next);
            return;
        }
        for (guest, reply) in outcomes(command, host.guest) {
            // A message that stays is delivered again.
            for stays in [true, false] {
                let mut world = self.clone();
                if !stays {
                    world.take(message);
                }
                let host = world.host_mut(to);
                host.guest = guest;
                host.fence = host.fence.max(fence);
                world.put(Message::Reply { attempt: fence.attempt, reply });
                next.add(Event::Obeyed(to, command, reply), world);
            }
        }
    }

    /// A host that was away has a controller confirm that a start is the latest attempt.
    fn start_is_in_question(&self, message: Message, (to, fence): (Place, Fence), next: &mut Next) {
        let mut world = self.clone();
        world.take(message);
        world.host_mut(to).fence = world.host(to).fence.max(fence);
        world.host_mut(to).meet();
        if fence >= self.latest_fence() {
            world.put(Message::MayRun { to, fence, starts: true });
        }
        next.add(Event::StartInQuestion(to), world);
    }

    fn answer_arrives(&self, message: Message, (to, fence, starts): (Place, Fence, bool), setting: &Setting, next: &mut Next) {
        let host = self.host(to);
        let is_there = host.guest == Guest::Interrupted || (starts && host.guest == Guest::Off);
        if !host.has_power || !is_there || self.is_stale(to, fence, setting) {
            return;
        }
        let mut world = self.clone();
        world.take(message);
        let host = world.host_mut(to);
        (host.guest, host.was_away, host.fence) = (Guest::Running, false, host.fence.max(fence));
        if starts {
            world.put(Message::Reply { attempt: fence.attempt, reply: Reply::Done });
        }
        next.add(Event::RanOn(to), world);
    }

    /// Adds the states in which a host has fared worse or better.
    pub(crate) fn hosts_fare(&self, setting: &Setting, next: &mut Next) {
        for place in Place::ALL {
            if self.troubles < setting.bounds.troubles {
                self.fares_worse(place, next);
            }
            self.fares_better(place, setting, next);
            self.operator_acts(place, next);
        }
    }

    fn fares_worse(&self, place: Place, next: &mut Next) {
        let mut trouble = |event: Event, change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            world.troubles += 1;
            world.host_mut(place).is_heard = false;
            change(&mut world);
            next.add(event, world);
        };
        if self.host(place).is_heard {
            trouble(Event::CutOff(place), &|_| {});
        }
        if self.host(place).has_power {
            let off = |world: &mut World| {
                world.host_mut(place).has_power = false;
                world.host_mut(place).interrupt();
                world.drop_answers(place);
            };
            trouble(Event::PowerLost(place), &off);
            trouble(Event::SaidOff(place), &|world| {
                off(world);
                world.host_mut(place).said_off = true;
            });
        }
    }

    fn fares_better(&self, place: Place, setting: &Setting, next: &mut Next) {
        let host = self.host(place);
        if !host.has_power && (setting.operator == Operator::Careless || !host.is_forced_down) {
            let mut world = self.clone();
            world.host_mut(place).has_power = true;
            next.add(Event::PowerBack(place), world);
        }
        if !host.has_power {
            return;
        }
        if !host.is_heard {
            let mut world = self.clone();
            world.host_mut(place).meet();
            next.add(Event::Heard(place), world);
        }
        if host.was_away && host.guest == Guest::Interrupted {
            let mut world = self.clone();
            world.host_mut(place).meet();
            let is_at_rest = !self.journal.is_live || !setting.has(Guard::OwnerAtRest);
            if self.owner == place && is_at_rest {
                world.put(Message::MayRun { to: place, fence: self.latest_fence(), starts: false });
            }
            next.add(Event::OwnerInQuestion(place), world);
        }
    }

    /// An operator forces a host down that is off and silent, and takes the word back at any time.
    fn operator_acts(&self, place: Place, next: &mut Next) {
        let host = self.host(place);
        if !host.is_forced_down && (host.has_power || host.is_heard) {
            return;
        }
        let event = if host.is_forced_down { Event::WordTakenBack(place) } else { Event::ForcedDown(place) };
        let mut world = self.clone();
        world.host_mut(place).is_forced_down = !host.is_forced_down;
        next.add(event, world);
    }

    /// Adds the states in which clocks have gone on: all together, or the controllers' alone, which runs ahead by one tick at most.
    pub(crate) fn time_passes(&self, setting: &Setting, next: &mut Next) {
        let Some(margin) = setting.self_fence else { return };
        let longest = FENCE_AFTER + margin;
        let mut together = self.clone();
        for place in Place::ALL {
            let host = together.host_mut(place);
            if host.is_heard || !host.has_power {
                continue;
            }
            host.unreached = (host.unreached + 1).min(FENCE_AFTER);
            if host.unreached == FENCE_AFTER {
                host.interrupt();
                together.drop_answers(place);
            }
        }
        together.controllers_tick(longest);
        next.add(Event::TimePassed, together);
        let is_ahead = Place::ALL.iter().any(|place| self.host(*place).silence > self.host(*place).unreached);
        if !is_ahead {
            let mut alone = self.clone();
            alone.controllers_tick(longest);
            next.add(Event::ControllersClockRan, alone);
        }
    }

    fn controllers_tick(&mut self, longest: u8) {
        for host in self.hosts.iter_mut().filter(|host| !host.is_heard) {
            host.silence = (host.silence + 1).min(longest);
        }
    }
}

/// Returns what a command makes of a guest, and the reply. Some commands may be refused.
fn outcomes(command: Command, guest: Guest) -> Vec<(Guest, Reply)> {
    match (command, guest) {
        (Command::Stop, Guest::Running | Guest::Interrupted) => vec![(Guest::Off, Reply::Done)],
        (Command::Stop, other) => vec![(other, Reply::Done)],
        (Command::Prepare, Guest::Running) => vec![(Guest::Running, Reply::Refused)],
        (Command::Prepare, other) => vec![(Guest::Off, Reply::Done), (other, Reply::Refused)],
        (Command::Start, Guest::Off | Guest::Interrupted) => vec![(Guest::Running, Reply::Done), (guest, Reply::Refused)],
        (Command::Start, Guest::Running) => vec![(Guest::Running, Reply::Done)],
        (Command::Start, Guest::Absent) => vec![(Guest::Absent, Reply::Refused)],
        (Command::Remove, _) => vec![(Guest::Absent, Reply::Done)],
        (Command::Fence, Guest::Running) => vec![(Guest::Running, Reply::WasRunning)],
        (Command::Fence, _) => vec![(Guest::Absent, Reply::Done)],
    }
}
