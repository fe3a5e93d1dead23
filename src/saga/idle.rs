//! The conditions under which a step, its act and its undo, has nothing to do. The runner passes such a step over: its end is a line of the
//! next commit, and no host and no service hears of it. A condition asks only for facts that are known before the step and that the operation
//! does not change.

use super::context::Context;

/// The server has no volumes.
pub fn without_volumes(context: &Context) -> bool {
    context.volumes.is_empty()
}

/// The server has no ports.
pub fn without_ports(context: &Context) -> bool {
    context.ports.is_empty()
}
