//! The resources that a port asks of its host's network, and the `allocation` of a binding's profile, which names the providers that give
//! them. Neutron has two forms of both: one group per port, and several groups with ids of their own.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The form of a port's request, and of the allocation that answers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RequestForm {
    /// A single group, which has the port's id. The allocation is a provider's id.
    Port,
    /// Groups with ids of their own. The allocation names a provider per group.
    Groups,
}

/// Resources that come from one provider.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestGroup {
    pub id: Uuid,
    /// Amounts by class.
    pub resources: BTreeMap<String, i64>,
    /// The traits of the provider.
    pub required: BTreeSet<String>,
}

/// The request of one port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortRequest {
    pub port: Uuid,
    pub form: RequestForm,
    pub groups: Vec<RequestGroup>,
    /// The groups whose providers lie in one subtree.
    #[serde(default)]
    pub same_subtree: BTreeSet<Uuid>,
    /// The physical network on which the port needs a virtual function of its host. The network service does not ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_on: Option<String>,
}

/// A provider for a group of a request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Grant {
    pub group: Uuid,
    pub provider: Uuid,
    /// Amounts by class.
    pub resources: BTreeMap<String, i64>,
}

impl PortRequest {
    /// Reads the `resource_request` of a port; none if it asks for nothing. Fails with the reason if it cannot be read.
    pub fn read(port: Uuid, value: Option<&Value>) -> Result<Option<PortRequest>, String> {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
        let unreadable = |why: String| format!("the resource request of port {port} cannot be read: {why}");
        let (form, groups) = match value.get("request_groups") {
            None => (RequestForm::Port, vec![group(port, value).map_err(unreadable)?]),
            Some(groups) => {
                let entries = groups.as_array().ok_or_else(|| unreadable("request_groups is no list".into()))?;
                let groups = entries.iter().map(|one| group(id_in(one.get("id"))?, one)).collect::<Result<Vec<_>, String>>();
                (RequestForm::Groups, groups.map_err(unreadable)?)
            }
        };
        let subtree = value.get("same_subtree").and_then(Value::as_array).into_iter().flatten();
        let same_subtree = subtree.map(|id| id_in(Some(id))).collect::<Result<BTreeSet<Uuid>, String>>().map_err(unreadable)?;
        let groups: Vec<RequestGroup> = groups.into_iter().filter(|group| !group.resources.is_empty()).collect();
        let same_subtree = same_subtree.into_iter().filter(|id| groups.iter().any(|group| group.id == *id)).collect();
        Ok((!groups.is_empty()).then_some(PortRequest { port, form, groups, same_subtree, function_on: None }))
    }

    /// Returns the request of a port that asks for no resources.
    pub fn of_nothing(port: Uuid) -> PortRequest {
        PortRequest { port, form: RequestForm::Groups, groups: Vec::new(), same_subtree: BTreeSet::new(), function_on: None }
    }

    /// Returns the `allocation` for a binding's profile; none if a group has no provider.
    pub fn allocation(&self, grants: &[Grant]) -> Option<Value> {
        let of = |group: &RequestGroup| grants.iter().find(|grant| grant.group == group.id).map(|grant| grant.provider.to_string());
        match self.form {
            RequestForm::Port => of(self.groups.first()?).map(Value::String),
            RequestForm::Groups => {
                let providers = self.groups.iter().map(|group| Some((group.id.to_string(), Value::String(of(group)?))));
                providers.collect::<Option<Map<String, Value>>>().map(Value::Object)
            }
        }
    }

    /// Returns the grants that an `allocation` names. The form of the allocation may be older than that of the request, if there is one group.
    /// Fails with the reason if a group has no provider, or if a provider is named for no group.
    pub fn grants(&self, allocation: &Value) -> Result<Vec<Grant>, String> {
        let grant = |group: &RequestGroup, provider| Grant { group: group.id, provider, resources: group.resources.clone() };
        match (allocation, self.groups.as_slice()) {
            (Value::String(_), [only]) => Ok(vec![grant(only, id_in(Some(allocation))?)]),
            (Value::Object(providers), groups) => {
                if let Some(strange) = providers.keys().find(|key| !groups.iter().any(|group| group.id.to_string() == **key)) {
                    return Err(format!("it names a provider for {strange}, which is no group of the port's request"));
                }
                let of = |group: &RequestGroup| match providers.get(&group.id.to_string()) {
                    Some(provider) => id_in(Some(provider)).map(|provider| grant(group, provider)),
                    None => Err(format!("it names no provider for the group {}", group.id)),
                };
                groups.iter().map(of).collect()
            }
            _ => Err(format!("{allocation} is no allocation for {} groups", self.groups.len())),
        }
    }

    /// Returns the amounts that the port asks for, by class.
    pub fn amounts(&self) -> BTreeMap<&str, i64> {
        let mut sums = BTreeMap::new();
        for (class, amount) in self.groups.iter().flat_map(|group| &group.resources) {
            *sums.entry(class.as_str()).or_insert(0) += amount;
        }
        sums
    }
}

/// Returns the providers that an `allocation` names, in either form.
pub fn providers_named(allocation: &Value) -> Vec<Uuid> {
    match allocation {
        Value::String(_) => id_in(Some(allocation)).into_iter().collect(),
        Value::Object(providers) => providers.values().filter_map(|provider| id_in(Some(provider)).ok()).collect(),
        _ => Vec::new(),
    }
}

fn group(id: Uuid, value: &Value) -> Result<RequestGroup, String> {
    let amount = |(class, amount): (&String, &Value)| match amount.as_i64().filter(|amount| *amount > 0) {
        Some(amount) => Ok((class.clone(), amount)),
        None => Err(format!("{amount} is no amount of {class}")),
    };
    let amounts = value.get("resources").and_then(Value::as_object).into_iter().flatten();
    let resources = amounts.map(amount).collect::<Result<_, String>>()?;
    let required = value.get("required").and_then(Value::as_array).into_iter().flatten();
    let required = required.map(|name| name.as_str().map(str::to_owned).ok_or_else(|| format!("{name} is no trait")));
    Ok(RequestGroup { id, resources, required: required.collect::<Result<_, String>>()? })
}

fn id_in(value: Option<&Value>) -> Result<Uuid, String> {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    Uuid::parse_str(text).map_err(|_| format!("\"{text}\" is no id"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PORT: Uuid = Uuid::from_u128(1);

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn grant(group: Uuid, provider: u128) -> Grant {
        Grant { group, provider: id(provider), resources: BTreeMap::new() }
    }

    #[test]
    fn a_request_of_one_group_has_the_ports_id() {
        let request = json!({"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}, "required": ["CUSTOM_PHYSNET_A"]});
        let read = PortRequest::read(PORT, Some(&request)).unwrap().unwrap();
        assert_eq!((read.form, read.groups[0].id, read.groups.len()), (RequestForm::Port, PORT, 1));
        assert_eq!(read.allocation(&[grant(PORT, 7)]), Some(json!(id(7))));
        assert_eq!(read.grants(&json!(id(7))).unwrap()[0].provider, id(7));
        assert_eq!(read.allocation(&[]), None);
    }

    #[test]
    fn a_request_of_groups_names_a_provider_for_each() {
        let one = |n: u128, class: &str| json!({"id": id(n), "resources": {class: 5}, "required": []});
        let request = json!({"request_groups": [one(2, "A"), one(3, "B")], "same_subtree": [id(2), id(3)]});
        let read = PortRequest::read(PORT, Some(&request)).unwrap().unwrap();
        assert_eq!(read.same_subtree, BTreeSet::from([id(2), id(3)]));
        assert_eq!(read.amounts(), BTreeMap::from([("A", 5), ("B", 5)]));
        let allocation = read.allocation(&[grant(id(2), 7), grant(id(3), 8)]).unwrap();
        assert_eq!(allocation, json!({id(2).to_string(): id(7), id(3).to_string(): id(8)}));
        assert_eq!(read.grants(&allocation).unwrap().iter().map(|grant| grant.provider).collect::<Vec<_>>(), [id(7), id(8)]);
        assert_eq!(providers_named(&allocation), [id(7), id(8)]);
        assert_eq!(read.allocation(&[grant(id(2), 7)]), None);
        assert!(read.grants(&json!({id(2).to_string(): id(7)})).unwrap_err().contains("no provider for the group"));
        assert!(read.grants(&json!(id(7))).is_err());
    }

    #[test]
    fn a_port_without_a_request_asks_for_nothing() {
        for nothing in [None, Some(json!(null)), Some(json!({"request_groups": []})), Some(json!({"resources": {}}))] {
            assert_eq!(PortRequest::read(PORT, nothing.as_ref()), Ok(None));
        }
        for wrong in [json!({"resources": {"A": 0}}), json!({"resources": {"A": "x"}}), json!({"request_groups": [{"id": "x"}]})] {
            assert!(PortRequest::read(PORT, Some(&wrong)).is_err(), "{wrong}");
        }
    }
}
