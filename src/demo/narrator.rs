//! Lines on the terminal, with colour if standard output is a terminal.

use std::io::{IsTerminal, Write};

use crate::timeline::wrapped;

/// The width of prose in columns.
const WIDTH: usize = 92;

/// Tells the story on standard output. A missing reader does not change its end.
#[derive(Clone, Copy)]
pub struct Narrator {
    colour: bool,
}

impl Narrator {
    /// Uses colour if standard output is a terminal and `NO_COLOR` is not set.
    pub fn for_stdout() -> Narrator {
        Narrator { colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    pub fn title(&self, text: &str) {
        self.line("");
        self.line(&self.paint("1", text));
    }

    /// Begins a part of the story.
    pub fn heading(&self, text: &str) {
        let rule = "─".repeat(WIDTH.saturating_sub(text.chars().count() + 4));
        self.line("");
        self.line(&format!("{} {} {}", self.paint("2", "──"), self.paint("1;36", text), self.paint("2", &rule)));
    }

    /// Prints a paragraph.
    pub fn say(&self, text: &str) {
        self.line("");
        for line in wrapped(text, WIDTH) {
            self.line(&line);
        }
        self.line("");
    }

    /// Prints the command with which a user would do the next work of the demo.
    pub fn command(&self, text: &str) {
        self.line(&format!("  {}", self.paint("33", &format!("$ {text}"))));
    }

    /// Prints a fact with its name.
    pub fn fact(&self, name: &str, value: &str) {
        self.line(&format!("    {} {value}", self.paint("2", &format!("{name:<11}"))));
    }

    /// Prints a successful check.
    pub fn good(&self, text: &str) {
        self.line(&format!("  {} {text}", self.paint("1;32", "✓")));
    }

    /// Prints a line.
    pub fn line(&self, text: &str) {
        // Nobody may be reading any more.
        let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
    }

    /// Paints text in a colour or weight, by the terminal's code for it.
    pub fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_plain_without_a_terminal() {
        assert_eq!(Narrator { colour: false }.paint("1", "bold"), "bold");
        assert_eq!(Narrator { colour: true }.paint("1", "bold"), "\u{1b}[1mbold\u{1b}[0m");
    }
}
