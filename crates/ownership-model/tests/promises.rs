//! The promises hold by the rules of this release, and are broken without each of them. With `--nocapture` the traces are printed.

use ownership_model::{Breach, Case, Command, Event, Guest, Place, Promise, Reply, of_release, without_a_word, without_guards};

/// Explores the case, and returns its breach.
fn breach_of(case: &Case) -> Option<Breach> {
    let explored = case.explore();
    print!("{}", case.report(&explored));
    explored.breach
}

#[test]
fn words_about_hosts_keep_both_promises() {
    for case in of_release() {
        assert!(breach_of(&case).is_none(), "{}", case.name);
    }
}

#[test]
fn silence_as_death_runs_a_guest_twice() {
    let breach = breach_of(&without_a_word()[0]).expect("a breach");
    assert_eq!(breach.promise, Promise::OneRunningGuest);
    let events: Vec<Event> = breach.trace.iter().map(|(event, _)| *event).collect();
    assert_eq!(events.first(), Some(&Event::CutOff(Place::Source)));
    assert!(events.contains(&Event::WentOnWithout(0, Place::Source)) || events.contains(&Event::WentOnWithout(1, Place::Source)));
    let last = breach.trace.last().expect("an event");
    assert_eq!(*last, (Event::Obeyed(Place::Target, Command::Start, Reply::Done), [Guest::Running, Guest::Running]));
}

#[test]
fn a_word_that_has_had_its_time_says_nothing() {
    for case in &without_a_word()[1..] {
        let breach = breach_of(case).expect("a breach");
        assert_eq!(breach.promise, Promise::OneRunningGuest, "{}", case.name);
    }
}

#[test]
fn each_guard_is_needed() {
    for case in without_guards() {
        assert!(breach_of(&case).is_some(), "{}", case.name);
    }
}
