//! The keys of `cellshift top`.

use chrono::{DateTime, Utc};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::State;

/// The lines that a page key scrolls.
const PAGE: isize = 15;

/// The work that a key asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reaction {
    Stay,
    Leave,
    /// The journal of the operation with this id is to be read.
    Open(String),
    /// The open journal is to be read no more.
    Close,
}

impl State {
    /// Takes an event of the terminal.
    pub(super) fn react(&mut self, event: &Event, now: DateTime<Utc>) -> Reaction {
        let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else { return Reaction::Stay };
        if modifiers.contains(KeyModifiers::CONTROL) {
            return if *code == KeyCode::Char('c') { Reaction::Leave } else { Reaction::Stay };
        }
        if self.opened.is_some() {
            return self.in_journal(*code);
        }
        if self.filter.is_typed {
            self.type_filter(*code);
            return Reaction::Stay;
        }
        self.in_lists(*code, now)
    }

    fn in_journal(&mut self, code: KeyCode) -> Reaction {
        let Some(journal) = &mut self.opened else { return Reaction::Stay };
        match code {
            KeyCode::Up => journal.scroll(-1),
            KeyCode::Down => journal.scroll(1),
            KeyCode::PageUp => journal.scroll(-PAGE),
            KeyCode::PageDown => journal.scroll(PAGE),
            KeyCode::Esc | KeyCode::Enter => return Reaction::Close,
            KeyCode::Char('q' | 'Q') => return Reaction::Leave,
            _ => {}
        }
        Reaction::Stay
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.filter.text.push(letter),
            KeyCode::Backspace => drop(self.filter.text.pop()),
            KeyCode::Enter => self.filter.is_typed = false,
            KeyCode::Esc => self.filter = Default::default(),
            _ => {}
        }
    }

    fn in_lists(&mut self, code: KeyCode, now: DateTime<Utc>) -> Reaction {
        match code {
            KeyCode::Up => self.select(-1, now),
            KeyCode::Down => self.select(1, now),
            KeyCode::Enter => return self.selected_now(now).map_or(Reaction::Stay, Reaction::Open),
            KeyCode::Char('/') => self.filter.is_typed = true,
            KeyCode::Esc if !self.filter.text.is_empty() => self.filter = Default::default(),
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => return Reaction::Leave,
            _ => {}
        }
        Reaction::Stay
    }

    /// Returns the ids of the listed operations, as they stand on the screen.
    fn ids(&self, now: DateTime<Utc>) -> Vec<String> {
        let (waiting, in_flight) = self.listed(now);
        waiting.into_iter().chain(in_flight).map(|row| row.uuid).collect()
    }

    /// Returns the selected operation, if it is still listed.
    fn selected_now(&self, now: DateTime<Utc>) -> Option<String> {
        self.selected.clone().filter(|selected| self.ids(now).contains(selected))
    }

    /// Selects another operation: the first, if none is selected or the selected one is gone.
    fn select(&mut self, by: isize, now: DateTime<Utc>) {
        let ids = self.ids(now);
        let at = self.selected.as_ref().and_then(|selected| ids.iter().position(|id| id == selected));
        let next = at.map_or(0, |at| at.saturating_add_signed(by).min(ids.len().saturating_sub(1)));
        self.selected = ids.get(next).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::overview::tests::{at, overview_of};
    use crate::cli::top::journal::Journal;

    fn key(code: KeyCode) -> Event {
        Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    /// Makes a screen with two moves, `web` and `db`.
    fn state() -> State {
        State::new(String::new(), overview_of(&[("m1", "web"), ("m2", "db")]))
    }

    fn press(state: &mut State, codes: &[KeyCode]) -> Reaction {
        codes.iter().fold(Reaction::Stay, |_, code| state.react(&key(*code), at(14)))
    }

    #[test]
    fn q_escape_and_interrupt_leave() {
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut state(), &[code]), Reaction::Leave);
        }
        let interrupt = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert_eq!(state().react(&interrupt, at(14)), Reaction::Leave);
        assert_eq!(press(&mut state(), &[KeyCode::Char('c')]), Reaction::Stay);
        assert_eq!(state().react(&Event::Resize(1, 1), at(14)), Reaction::Stay);
    }

    #[test]
    fn arrows_select_and_enter_opens() {
        let mut state = state();
        assert_eq!(press(&mut state, &[KeyCode::Enter]), Reaction::Stay, "nothing is selected");
        assert_eq!(press(&mut state, &[KeyCode::Down, KeyCode::Enter]), Reaction::Open("m1".into()));
        assert_eq!(press(&mut state, &[KeyCode::Down, KeyCode::Down, KeyCode::Enter]), Reaction::Open("m2".into()), "the last one stays");
        assert_eq!(press(&mut state, &[KeyCode::Up, KeyCode::Up, KeyCode::Enter]), Reaction::Open("m1".into()));
        state.selected = Some("gone".into());
        assert_eq!(press(&mut state, &[KeyCode::Enter]), Reaction::Stay);
    }

    #[test]
    fn a_filter_narrows_the_lists_until_it_is_cleared() {
        let mut state = state();
        press(&mut state, &[KeyCode::Char('/'), KeyCode::Char('D'), KeyCode::Char('q'), KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((state.filter.text.as_str(), state.filter.is_typed), ("D", false), "q is a letter here");
        assert_eq!(
            press(&mut state, &[KeyCode::Char('/'), KeyCode::Char('b'), KeyCode::Enter, KeyCode::Down, KeyCode::Enter]),
            Reaction::Open("m2".into())
        );
        assert_eq!(press(&mut state, &[KeyCode::Esc]), Reaction::Stay, "the filter is cleared first");
        assert_eq!(state.listed(at(14)).1.len(), 2);
        assert_eq!(press(&mut state, &[KeyCode::Esc]), Reaction::Leave);
    }

    #[test]
    fn an_open_journal_scrolls_and_closes() {
        let mut state = state();
        let lines = vec!["one".to_owned(), "two".to_owned()];
        state.opened = Some(Journal { lines, ..Journal::of("m1".into()) });
        assert_eq!(press(&mut state, &[KeyCode::Down]), Reaction::Stay);
        assert_eq!(state.opened.as_ref().map(|journal| journal.scrolled), Some(1));
        assert_eq!(press(&mut state, &[KeyCode::Esc]), Reaction::Close);
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), Reaction::Leave);
    }
}
