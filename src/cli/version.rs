//! The version that `cellshift --version` prints: the release, the commit of its source, and the features that are built in.

use std::sync::LazyLock;

/// The features that a build may have.
const FEATURES: [(&str, bool); 2] = [("tls", cfg!(feature = "tls")), ("mutations", cfg!(feature = "mutations"))];

/// Returns the release, the commit and the features.
pub(super) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(of_this_build);
    &LONG
}

fn of_this_build() -> String {
    let features: Vec<&str> = FEATURES.iter().filter(|(_, is_built_in)| *is_built_in).map(|(name, _)| *name).collect();
    text(env!("CARGO_PKG_VERSION"), option_env!("CELLSHIFT_COMMIT"), &features)
}

fn text(release: &str, commit: Option<&str>, features: &[&str]) -> String {
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    format!("{release} (commit {}; features: {features})", commit.unwrap_or("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_tells_commit_and_features() {
        assert_eq!(text("1.2.3", Some("abc"), &["tls", "x"]), "1.2.3 (commit abc; features: tls, x)");
        assert_eq!(text("1.2.3", None, &[]), "1.2.3 (commit unknown; features: none)");
    }
}
