//! The scheduler's answer to an operator who asks where a server could go.

pub use crate::domain::explanation::{Explanation, HostRefusal, HostVerdict, HostWeight};
