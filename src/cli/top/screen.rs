//! The screen of `cellshift top`.

use chrono::{DateTime, Utc};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};

use super::State;
use crate::cli::cells::CELL_HEAD;
use crate::cli::migrations::HEAD;
use crate::cli::output::printable;
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

/// Draws everything. On a small terminal the lower parts are cut.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, look: Look, now: DateTime<Utc>) {
    let counts = state.overview.counts(now);
    let cells: Vec<[String; 8]> = state.overview.cells(now);
    let (waiting, in_flight) = (state.overview.waiting(now), state.overview.in_flight(now));
    let lines = |rows: usize| Constraint::Length(u16::try_from(rows).unwrap_or(u16::MAX));
    let below = if waiting.is_empty() { 0 } else { waiting.len() + 3 };
    let parts = [lines(1), lines(counts.len() + 1), lines(cells.len() + 2), lines(below), Constraint::Fill(1), lines(1)];
    let [head, numbers, map, trouble, moves, foot] = Layout::vertical(parts).areas(frame.area());

    let title = format!("cellshift at {}  {}", state.address, now.format("%Y-%m-%d %H:%M:%SZ"));
    frame.render_widget(Paragraph::new(Line::styled(title, look.bold())), head);
    let told = counts.iter().map(|(name, value, is_bad)| {
        let style = if *is_bad { look.colour(Color::Red) } else { Style::new() };
        Line::from(vec![Span::raw(format!("{name:<17} ")), Span::styled(value.clone(), style)])
    });
    frame.render_widget(Paragraph::new(told.collect::<Vec<_>>()), numbers);
    let is_down = |row: &[String; 8]| if row[1] == "up" { Style::new() } else { look.colour(Color::Red) };
    frame.render_widget(table(CELL_HEAD, cells.iter().map(|row| (row, is_down(row))), look), map);
    if !waiting.is_empty() {
        let [title, rows] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(trouble);
        frame.render_widget(Paragraph::new(Line::styled("Needs an operator", look.colour(Color::Red))), title);
        frame.render_widget(table(HEAD, waiting.iter().map(|row| (row, Style::new())), look), rows);
    }
    if in_flight.is_empty() {
        frame.render_widget(Paragraph::new("No move is in flight."), moves);
    } else {
        let goes_back = |row: &[String; 9]| if row[7].starts_with("unwinding") { look.colour(Color::Yellow) } else { Style::new() };
        frame.render_widget(table(HEAD, in_flight.iter().map(|row| (row, goes_back(row))), look), moves);
    }
    frame.render_widget(footer(state, look, now), foot);
}

/// Says how to leave, or since when the service does not answer.
fn footer(state: &State, look: Look, now: DateTime<Utc>) -> Paragraph<'static> {
    match &state.trouble {
        None => Paragraph::new("q: leave"),
        Some((since, why)) => {
            let text = format!("no answer for {}: {}", span(now - *since), printable(why));
            Paragraph::new(Line::styled(text, look.colour(Color::Red)))
        }
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
    use crate::cli::overview::tests::{at, overview};

    fn screen(state: &State, width: u16, height: u16) -> (Vec<String>, bool) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, Look { colours: false }, at(14))).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        let is_plain = buffer.content().iter().all(|cell| cell.fg == Color::Reset && cell.modifier.is_empty());
        ((0..height).map(line).collect(), is_plain)
    }

    fn state() -> State {
        State { address: "http://h:1".into(), overview: overview(), trouble: None }
    }

    #[test]
    fn the_screen_has_counts_cells_and_moves() {
        let (lines, is_plain) = screen(&state(), 140, 20);
        let told = lines.join("\n");
        for wanted in ["cellshift at http://h:1  2026-11-27 08:31:14Z", "debts             3, the oldest of 14 s ago", "CELL   HEALTH"] {
            assert!(told.contains(wanted), "{wanted:?} in\n{told}");
        }
        assert!(told.contains("01234567   web     resize") && told.contains("running 40 %  at copy"), "{told}");
        assert_eq!(lines[19], "q: leave");
        assert!(is_plain, "no colours were asked for");
    }

    #[test]
    fn a_small_terminal_and_a_silent_service_are_met() {
        for (width, height) in [(1, 1), (10, 3), (30, 8)] {
            screen(&state(), width, height);
        }
        let trouble = Some((at(4), "no service answers".to_owned()));
        let (lines, _) = screen(&State { trouble, ..state() }, 80, 16);
        assert_eq!(lines[15], "no answer for 10 s: no service answers");
        assert!(lines.join("\n").contains("web"), "what was known stays");
    }
}
