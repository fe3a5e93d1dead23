//! The screen of `cellshift top`.

use chrono::{DateTime, Utc};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{HighlightSpacing, Paragraph, Row, Table, TableState};

use super::State;
use super::journal::Journal;
use crate::cli::cells::CELL_HEAD;
use crate::cli::migrations::HEAD;
use crate::cli::output::printable;
use crate::cli::overview::Listed;
use crate::domain::span::span;

/// How the screen may look.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// False where `NO_COLOR` is set.
    pub(super) colours: bool,
}

impl Look {
    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn bold(self) -> Style {
        if self.colours { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() }
    }
}

/// Draws everything, or the open journal. On a small terminal the lower parts are cut.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, look: Look, now: DateTime<Utc>) {
    match &state.opened {
        Some(journal) => draw_journal(frame, journal, state, look, now),
        None => draw_lists(frame, state, look, now),
    }
}

fn draw_journal(frame: &mut Frame<'_>, journal: &Journal, state: &State, look: Look, now: DateTime<Utc>) {
    let [body, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    let lines: Vec<Line<'_>> = match journal.lines.is_empty() {
        true => vec![Line::raw(format!("reading the journal of {}", journal.uuid))],
        false => journal.lines.iter().skip(journal.scrolled).map(|line| Line::raw(line.as_str())).collect(),
    };
    frame.render_widget(Paragraph::new(lines), body);
    frame.render_widget(footer(state, look, now), foot);
}

fn draw_lists(frame: &mut Frame<'_>, state: &State, look: Look, now: DateTime<Utc>) {
    let counts = state.overview.counts(now);
    let mut cells: Vec<[String; 8]> = state.overview.cells(now);
    cells.retain(|row| state.filter.fits(row));
    let (waiting, in_flight) = state.listed(now);
    let lines = |rows: usize| Constraint::Length(u16::try_from(rows).unwrap_or(u16::MAX));
    let below = if waiting.is_empty() { 0 } else { waiting.len() + 3 };
    let parts = [lines(1), lines(counts.len() + 1), lines(cells.len() + 2), lines(below), Constraint::Fill(1), lines(1)];
    let [head, numbers, map, trouble, moves, foot] = Layout::vertical(parts).areas(frame.area());

    let title = format!("cellshift at {}  {}", state.address, now.format("%Y-%m-%d %H:%M:%SZ"));
    frame.render_widget(Paragraph::new(Line::styled(title, look.bold())), head);
    let lines = counts.iter().map(|count| {
        let style = if count.is_bad { look.colour(Color::Red) } else { Style::new() };
        Line::from(vec![Span::raw(format!("{:<17} ", count.name)), Span::styled(count.text(), style)])
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), numbers);
    let is_down = |row: &[String; 8]| if row[1] == "up" { Style::new() } else { look.colour(Color::Red) };
    frame.render_widget(table(CELL_HEAD, cells.iter().map(|row| (row, is_down(row))), look), map);
    if !waiting.is_empty() {
        let [title, rows] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(trouble);
        frame.render_widget(Paragraph::new(Line::styled("Needs an operator", look.colour(Color::Red))), title);
        operations(frame, rows, &waiting, state, look);
    }
    match (in_flight.is_empty(), state.filter.text.is_empty()) {
        (false, _) => operations(frame, moves, &in_flight, state, look),
        (true, true) => frame.render_widget(Paragraph::new("No move is in flight."), moves),
        (true, false) => frame.render_widget(Paragraph::new("No move in flight fits the filter."), moves),
    }
    frame.render_widget(footer(state, look, now), foot);
}

/// Draws a table of operations, with a sign before the selected one.
fn operations(frame: &mut Frame<'_>, area: Rect, rows: &[Listed], state: &State, look: Look) {
    let style = |row: &Listed| if row.cells[7].starts_with("unwinding") { look.colour(Color::Yellow) } else { Style::new() };
    let selected = rows.iter().position(|row| state.selected.as_ref() == Some(&row.uuid));
    let table = table(HEAD, rows.iter().map(|row| (&row.cells, style(row))), look);
    let table = table.highlight_symbol("▸ ").highlight_spacing(HighlightSpacing::Always).row_highlight_style(look.bold());
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(selected));
}

/// Says which keys there are, or since when the service does not answer.
fn footer(state: &State, look: Look, now: DateTime<Utc>) -> Paragraph<'static> {
    match &state.trouble {
        None => Paragraph::new(keys(state)),
        Some((since, why)) => {
            let text = format!("no answer for {}: {}", span(now - *since), printable(why));
            Paragraph::new(Line::styled(text, look.colour(Color::Red)))
        }
    }
}

/// Returns the keys that mean something now.
fn keys(state: &State) -> String {
    match (&state.opened, &state.filter) {
        (Some(_), _) => "Esc: back  ↑ ↓: scroll  q: leave".to_owned(),
        (None, filter) if filter.is_typed => format!("/{}  Enter: keep  Esc: clear", printable(&filter.text)),
        (None, filter) if !filter.text.is_empty() => {
            format!("filter: {}  Esc: clear  ↑ ↓: select  Enter: open  q: leave", printable(&filter.text))
        }
        (None, _) => "q: leave  ↑ ↓: select  Enter: open  /: filter".to_owned(),
    }
}

/// Makes a table whose columns are as wide as their longest text; the last one has the rest of the line.
fn table<'a, const N: usize>(head: [&'a str; N], rows: impl Iterator<Item = (&'a [String; N], Style)> + Clone, look: Look) -> Table<'a> {
    let width = |column: usize| {
        let widest = rows.clone().map(|(row, _)| row[column].chars().count()).chain([head[column].chars().count()]).max();
        Constraint::Length(u16::try_from(widest.unwrap_or_default()).unwrap_or(u16::MAX))
    };
    let widths = (0..N).map(|column| if column + 1 == N { Constraint::Fill(1) } else { width(column) });
    let body = rows.clone().map(|(row, style)| Row::new(row.each_ref().map(|cell| printable(cell))).style(style));
    Table::new(body, widths).header(Row::new(head).style(look.bold())).column_spacing(2)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::cli::overview::tests::{at, overview, overview_of};

    fn screen(state: &State, width: u16, height: u16) -> (Vec<String>, bool) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, Look { colours: false }, at(14))).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        let is_plain = buffer.content().iter().all(|cell| cell.fg == Color::Reset && cell.modifier.is_empty());
        ((0..height).map(line).collect(), is_plain)
    }

    fn state() -> State {
        State::new("http://h:1".into(), overview())
    }

    #[test]
    fn the_screen_has_counts_cells_and_moves() {
        let (lines, is_plain) = screen(&state(), 140, 22);
        let text = lines.join("\n");
        for part in ["cellshift at http://h:1  2026-11-27 08:31:14Z", "debts             3, the oldest 14 s ago", "CELL   HEALTH"] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(text.contains("01234567   web     resize") && text.contains("running 40 %  at copy"), "{text}");
        assert_eq!(lines[21], "q: leave  ↑ ↓: select  Enter: open  /: filter");
        assert!(is_plain, "no colours were asked for");
    }

    #[test]
    fn a_small_terminal_and_a_silent_service_are_met() {
        for (width, height) in [(1, 1), (10, 3), (30, 8)] {
            screen(&state(), width, height);
        }
        let trouble = Some((at(4), "no service answers".to_owned()));
        let (lines, _) = screen(&State { trouble, ..state() }, 80, 22);
        assert_eq!(lines[21], "no answer for 10 s: no service answers");
        assert!(lines.join("\n").contains("web"), "what was known stays");
    }

    #[test]
    fn the_selected_operation_has_a_sign() {
        let mut state = State::new(String::new(), overview_of(&[("m1", "web"), ("m2", "db")]));
        state.selected = Some("m2".into());
        let (lines, _) = screen(&state, 140, 24);
        let row = |name: &str| lines.iter().find(|line| line.contains(name)).cloned().unwrap_or_default();
        assert!(row(" db ").starts_with("▸ m2") && row(" web ").starts_with("  m1"), "{}", lines.join("\n"));
    }

    #[test]
    fn a_filter_hides_the_other_rows() {
        let mut state = State::new(String::new(), overview_of(&[("m1", "web"), ("m2", "db")]));
        state.filter.text = "DB".into();
        let (lines, _) = screen(&state, 140, 24);
        assert!(lines.iter().any(|line| line.contains(" db ")) && !lines.iter().any(|line| line.contains(" web ")), "{}", lines.join("\n"));
        assert!(lines[23].starts_with("filter: DB"), "{}", lines[23]);
        state.filter.text = "nothing".into();
        assert!(screen(&state, 140, 24).0.iter().any(|line| line == "No move in flight fits the filter."));
    }

    #[test]
    fn an_open_journal_covers_the_lists() {
        let mut state = state();
        state.opened = Some(Journal::of("0123456789".into()));
        assert_eq!(screen(&state, 80, 4).0[0], "reading the journal of 0123456789");
        let lines = vec!["first".to_owned(), "second".to_owned()];
        state.opened = Some(Journal { lines, scrolled: 1, ..Journal::of("0123456789".into()) });
        let (lines, _) = screen(&state, 80, 4);
        assert_eq!((lines[0].as_str(), lines[3].as_str()), ("second", "Esc: back  ↑ ↓: scroll  q: leave"));
    }
}
