//! The filters of a list: one row per parameter, with the callers that may use it and the part of the filter that it sets.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use regex::RegexBuilder;
use uuid::Uuid;

use super::PAGING;
use crate::domain::context::RequestContext;
use crate::domain::instance_filter::{Deleted, InstanceFilter, TextPattern, states_of_status};
use crate::domain::policy::Target;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::http::compute::answer::{bad_request, forbidden};
use crate::http::compute::query::{Query, parse_moment};
use crate::http::compute::servers::rules::MAX_TAGS;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::http::schema::{is_true, strict_bool};
use crate::policy_file::PolicyFile;

/// The maximum size of a compiled pattern in bytes, because a short pattern can compile to a large program.
const LARGEST_PATTERN: usize = 1 << 20;

/// Names of records beside servers, which no filter can use.
const JOINED: &[&str] =
    &["block_device_mapping", "services", "metadata", "system_metadata", "info_cache", "security_groups", "pci_devices"];

/// A parameter that filters the list.
struct Parameter {
    name: &'static str,
    users: Users,
    form: Form,
}

/// The callers that may use a parameter. A list ignores it for all others.
#[derive(Clone, Copy)]
enum Users {
    /// All callers, from this minor version on.
    All(u16),
    /// Operators, by policy.
    Operators,
    /// Operators in each version, and all callers from this minor version on.
    OperatorsUntil(u16),
}

/// A field of the filter.
type Field<T> = fn(&mut InstanceFilter) -> &mut T;

/// The form of a parameter's value, and the field that it sets.
enum Form {
    Text(Field<Option<String>>),
    Number(Field<Option<i32>>),
    Flag(Field<Option<bool>>),
    /// A regular expression.
    Pattern(Field<Option<TextPattern>>),
    /// Tags with commas between them.
    Tags(Field<Vec<String>>),
    /// A bound of the period in which the server changed.
    Bound(Field<Option<DateTime<Utc>>>),
    /// The exact value of a time.
    Time(Field<Option<DateTime<Utc>>>),
    PowerState,
    VmState,
    TaskState,
    Uuid,
    /// [`Filters::scope`] or [`Filters::states`] reads the parameter together with others.
    Combined,
    /// A valid parameter that filters nothing.
    WithoutEffect,
}

const fn parameter(name: &'static str, users: Users, form: Form) -> Parameter {
    Parameter { name, users, form }
}

/// All parameters. If two rows set the same field, the first parameter that the request has wins. If several values are wrong, the answer
/// names the first row's.
const PARAMETERS: &[Parameter] = {
    use Users::{All, Operators, OperatorsUntil};
    &[
        parameter("all_tenants", All(1), Form::Combined),
        parameter("project_id", Operators, Form::Combined),
        parameter("tenant_id", Operators, Form::Combined),
        parameter("user_id", OperatorsUntil(83), Form::Text(|filter| &mut filter.user_id)),
        parameter("status", All(1), Form::Combined),
        parameter("deleted", Operators, Form::Combined),
        parameter("soft_deleted", Operators, Form::Flag(|filter| &mut filter.soft_deleted)),
        parameter("changes-since", All(1), Form::Bound(|filter| &mut filter.changes_since)),
        parameter("changes-before", All(66), Form::Bound(|filter| &mut filter.changes_before)),
        parameter("created_at", OperatorsUntil(83), Form::Time(|filter| &mut filter.created_at)),
        parameter("launched_at", OperatorsUntil(83), Form::Time(|filter| &mut filter.launched_at)),
        parameter("terminated_at", OperatorsUntil(83), Form::Time(|filter| &mut filter.terminated_at)),
        parameter("name", All(1), Form::Pattern(|filter| &mut filter.name)),
        parameter("display_name", Operators, Form::Pattern(|filter| &mut filter.name)),
        parameter("description", Operators, Form::Pattern(|filter| &mut filter.description)),
        parameter("display_description", Operators, Form::Pattern(|filter| &mut filter.description)),
        parameter("hostname", OperatorsUntil(90), Form::Pattern(|filter| &mut filter.hostname)),
        parameter("ip", All(1), Form::Pattern(|filter| &mut filter.ip)),
        parameter("ip6", All(5), Form::Pattern(|filter| &mut filter.ip6)),
        parameter("tags", All(26), Form::Tags(|filter| &mut filter.tags)),
        parameter("tags-any", All(26), Form::Tags(|filter| &mut filter.tags_any)),
        parameter("not-tags", All(26), Form::Tags(|filter| &mut filter.not_tags)),
        parameter("not-tags-any", All(26), Form::Tags(|filter| &mut filter.not_tags_any)),
        parameter("reservation_id", All(1), Form::Text(|filter| &mut filter.reservation_id)),
        parameter("uuid", Operators, Form::Uuid),
        parameter("host", Operators, Form::Text(|filter| &mut filter.host)),
        parameter("node", Operators, Form::Text(|filter| &mut filter.node)),
        parameter("availability_zone", OperatorsUntil(83), Form::Text(|filter| &mut filter.availability_zone)),
        parameter("flavor", All(1), Form::Text(|filter| &mut filter.flavor_id)),
        parameter("image", All(1), Form::Text(|filter| &mut filter.image_ref)),
        parameter("image_ref", Operators, Form::Text(|filter| &mut filter.image_ref)),
        parameter("kernel_id", Operators, Form::WithoutEffect),
        parameter("ramdisk_id", Operators, Form::WithoutEffect),
        parameter("key_name", OperatorsUntil(83), Form::Text(|filter| &mut filter.key_name)),
        parameter("locked", All(73), Form::Flag(|filter| &mut filter.locked)),
        parameter("locked_by", Operators, Form::Text(|filter| &mut filter.locked_by)),
        parameter("config_drive", OperatorsUntil(83), Form::Flag(|filter| &mut filter.config_drive)),
        parameter("auto_disk_config", Operators, Form::Flag(|filter| &mut filter.auto_disk_config)),
        parameter("launch_index", Operators, Form::Number(|filter| &mut filter.launch_index)),
        parameter("progress", OperatorsUntil(83), Form::Number(|filter| &mut filter.progress)),
        parameter("root_device_name", Operators, Form::Text(|filter| &mut filter.root_device_name)),
        parameter("access_ip_v4", Operators, Form::Text(|filter| &mut filter.access_ip_v4)),
        parameter("access_ip_v6", Operators, Form::Text(|filter| &mut filter.access_ip_v6)),
        parameter("power_state", OperatorsUntil(83), Form::PowerState),
        parameter("vm_state", OperatorsUntil(83), Form::VmState),
        parameter("task_state", OperatorsUntil(83), Form::TaskState),
    ]
};

/// The filters of a request.
pub(super) struct Filters<'a> {
    pub(super) policy: &'a PolicyFile,
    pub(super) caller: &'a RequestContext,
    pub(super) version: ApiVersion,
    pub(super) query: &'a Query,
}

impl Filters<'_> {
    /// Builds the filter; None if no server can match. `word` names the list in the policy's rules.
    pub(super) fn read(&self, word: &str) -> Result<Option<InstanceFilter>, ApiError> {
        self.check_names()?;
        let mut filter = InstanceFilter::default();
        self.scope(&mut filter, word)?;
        if !self.states(&mut filter)? {
            return Ok(None);
        }
        for parameter in PARAMETERS {
            if let Some(text) = self.value(parameter) {
                self.set(&mut filter, parameter, text)?;
            }
        }
        Ok(Some(filter))
    }

    /// True if a parameter of this name affects this caller's list. Operators' lists count unknown names, too.
    pub(super) fn affects(&self, name: &str) -> bool {
        PARAMETERS.iter().any(|parameter| parameter.name == name && self.all_may_use(parameter)) || self.is_operator()
    }

    /// Answers 400 for a name that no filter has. From 2.75 on a query may contain only filters and the parameters of page and order.
    fn check_names(&self) -> Result<(), ApiError> {
        if let Some(name) = JOINED.iter().find(|name| self.query.get(name).is_some()) {
            return Err(invalid(name));
        }
        if !self.version.at_least(75) {
            return Ok(());
        }
        let names: Vec<&str> = PAGING.iter().copied().chain(PARAMETERS.iter().map(|parameter| parameter.name)).collect();
        self.query.only(&names)
    }

    fn all_may_use(&self, parameter: &Parameter) -> bool {
        match parameter.users {
            Users::All(since) | Users::OperatorsUntil(since) => self.version.at_least(since),
            Users::Operators => false,
        }
    }

    fn is_operator(&self) -> bool {
        self.policy.check("os_compute_api:servers:allow_all_filters", self.caller, &Target::own(self.caller))
    }

    /// Returns a parameter's value, if the caller may use the parameter in this microversion.
    fn value(&self, parameter: &Parameter) -> Option<&str> {
        let text = self.query.get(parameter.name)?;
        let for_operators = !matches!(parameter.users, Users::All(_));
        let allowed = self.all_may_use(parameter) || (for_operators && self.is_operator());
        allowed.then_some(text)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.value(PARAMETERS.iter().find(|parameter| parameter.name == name)?)
    }

    /// Limits the list to the caller's project, unless an operator requests all projects or another one.
    fn scope(&self, filter: &mut InstanceFilter, word: &str) -> Result<(), ApiError> {
        let all = match self.query.get("all_tenants") {
            Some("") => true,
            Some(text) => strict_bool(text)?,
            None => false,
        };
        filter.project_id = if all {
            let rule = format!("os_compute_api:servers:{word}:get_all_tenants");
            self.policy.authorize(&rule, self.caller, &Target::own(self.caller))?;
            self.get("project_id").or_else(|| self.get("tenant_id")).map(str::to_owned)
        } else {
            Some(self.caller.project_id.clone())
        };
        Ok(())
    }

    /// Sets the states to filter by. False if no server can have the requested status.
    fn states(&self, filter: &mut InstanceFilter) -> Result<bool, ApiError> {
        let changes = self.get("changes-since").is_some() || self.get("changes-before").is_some();
        filter.deleted = match self.get("deleted") {
            Some(text) if is_true(text) => Deleted::Only,
            Some(_) => Deleted::Exclude,
            None if changes => Deleted::Include,
            None => Deleted::Exclude,
        };
        let statuses: BTreeSet<String> = self.query.all("status").iter().map(|status| status.to_ascii_uppercase()).collect();
        if statuses.is_empty() {
            return Ok(true);
        }
        let names: Vec<&str> = statuses.iter().map(String::as_str).collect();
        let states = states_of_status(&names);
        if states.is_empty() {
            return if self.version.at_least(38) { Err(bad_request("Invalid status value")) } else { Ok(false) };
        }
        if names == ["DELETED"] {
            if !self.caller.is_admin() {
                return Err(forbidden("Only administrators may list deleted instances"));
            }
            filter.deleted = Deleted::Only;
        }
        filter.states = Some(states);
        Ok(true)
    }

    /// Sets the field of one parameter.
    fn set(&self, filter: &mut InstanceFilter, parameter: &Parameter, text: &str) -> Result<(), ApiError> {
        let name = parameter.name;
        match parameter.form {
            Form::Text(field) => fill(field(filter), text.to_owned()),
            Form::Number(field) => fill(field(filter), number(name, text)?),
            Form::Flag(field) => fill(field(filter), strict_bool(text)?),
            Form::Pattern(field) => fill(field(filter), pattern(name, text)?),
            Form::Tags(field) => *field(filter) = tags(name, text)?,
            Form::Bound(field) => {
                *field(filter) = self.query.moment(name)?;
                check_period(filter)?;
            }
            // A malformed time equals no server's.
            Form::Time(field) => fill(field(filter), parse_moment(text).unwrap_or(DateTime::<Utc>::MIN_UTC)),
            Form::PowerState => filter.power_state = Some(PowerState::from_code(number(name, text)?)),
            Form::VmState => filter.vm_states = Some(VmState::parse(text).into_iter().collect()),
            Form::TaskState => filter.task_states = Some(task_states(text)),
            Form::Uuid => filter.uuids = Some(Uuid::parse_str(text).into_iter().collect()),
            Form::Combined | Form::WithoutEffect => {}
        }
        Ok(())
    }
}

/// Sets a field, unless an earlier parameter has set it.
fn fill<T>(field: &mut Option<T>, value: T) {
    field.get_or_insert(value);
}

fn invalid(name: &str) -> ApiError {
    bad_request(format!("Invalid filter field: {name}."))
}

fn number(name: &str, text: &str) -> Result<i32, ApiError> {
    text.parse().map_err(|_| invalid(name))
}

fn pattern(name: &str, text: &str) -> Result<TextPattern, ApiError> {
    let expression = RegexBuilder::new(text).size_limit(LARGEST_PATTERN).build().map_err(|_| invalid(name))?;
    Ok(TextPattern::new(text, move |searched| expression.is_match(searched)))
}

/// Parses tags. Each becomes a condition in SQL, so their number is limited to a server's maximum.
fn tags(name: &str, text: &str) -> Result<Vec<String>, ApiError> {
    let tags: BTreeSet<&str> = text.split(',').collect();
    match tags.len() <= MAX_TAGS {
        true => Ok(tags.into_iter().map(str::to_owned).collect()),
        false => Err(bad_request(format!("Invalid filter field: {name}. It names {} tags, and {MAX_TAGS} are allowed.", tags.len()))),
    }
}

fn check_period(filter: &InstanceFilter) -> Result<(), ApiError> {
    match (filter.changes_since, filter.changes_before) {
        (Some(since), Some(before)) if since > before => {
            Err(bad_request("The value of changes-since must be less than or equal to changes-before."))
        }
        _ => Ok(()),
    }
}

/// Parses a task state. An unknown one selects no server.
fn task_states(text: &str) -> Vec<Option<TaskState>> {
    match text {
        "" | "None" | "null" => vec![None],
        named => TaskState::parse(named).map(Some).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests;
