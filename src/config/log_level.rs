//! The levels of the log.

/// The levels, for messages.
pub const LEVELS: &str = "error, warn, info, debug, trace or off, or MODULE=LEVEL";

/// Returns the first directive with a misspelt level, which would otherwise be taken for a module's name.
pub fn misspelt(directives: &str) -> Option<&str> {
    let is_level = |directive: &str| directive.rsplit('=').next().is_some_and(|level| level.trim().parse::<log::LevelFilter>().is_ok());
    directives.split(',').find(|directive| !is_level(directive))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_found() {
        assert_eq!(misspelt("info,cellshift::saga=debug,actix_server=off"), None);
        for (directives, wrong) in [("inof", "inof"), ("", ""), ("info,cellshift=loud", "cellshift=loud")] {
            assert_eq!(misspelt(directives), Some(wrong));
        }
    }
}
