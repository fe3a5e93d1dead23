//! The policy file of the first start: without rules, but with an explanation of them.

use std::path::Path;

use crate::private_file;

const TEXT: &str = r#"# Who may do what. One rule per line, laid over the built-in ones; read again whenever this file changes.
# A file with a mistake changes nothing and is an error in the log.
#
# Checks: @ (everybody), ! (nobody), role:NAME, rule:NAME, project_id:%(project_id)s, user_id:%(user_id)s,
# joined with and, or, not and parentheses.

# Let a resize or cold migration leave its cell, for every project's members and for administrators:
# "compute:servers:resize:cross_cell": "rule:project_member_or_admin"
"#;

pub(super) fn make_if_missing(path: &Path) -> std::io::Result<()> {
    if path.exists() { Ok(()) } else { private_file::write(path, TEXT) }
}
