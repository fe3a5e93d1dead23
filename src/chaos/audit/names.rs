//! The names of the things that a report speaks of, for the texts that people read. The texts of violations have ids.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::snapshot::Snapshot;
use crate::domain::saga_record::SagaRecord;
use crate::saga::context::Context;

/// Names by id. An operation has none, and is called by its kind and its server.
pub type Names = BTreeMap<Uuid, String>;

/// The length of an id in a text.
const ID: usize = 36;

/// Returns the names of the things with these ids, as far as the snapshot has them.
pub(super) fn of(snapshot: &Snapshot, ids: &BTreeSet<Uuid>) -> Names {
    let mut names = Names::new();
    let records = snapshot.records().map(|(_, record)| (record.uuid, record.display_name.as_str()));
    let ports = snapshot.ports.iter().flatten().map(|port| (port.id, port.name.as_str()));
    let images = snapshot.temporary_images.iter().chain(&snapshot.shelved_images).flatten();
    let images = images.map(|image| (image.id, image.name.as_deref().unwrap_or_default()));
    let providers = snapshot.placement.iter().flat_map(|placement| &placement.providers);
    let providers = providers.map(|provider| (provider.uuid, provider.name.as_str()));
    for (id, name) in records.chain(ports).chain(images).chain(providers).filter(|(id, name)| ids.contains(id) && !name.is_empty()) {
        names.entry(id).or_insert_with(|| name.to_owned());
    }
    for_operations(snapshot, ids, &mut names);
    names
}

/// Adds the names of operations, and of servers that only their operations know: those that are gone, and those of silent cells.
fn for_operations(snapshot: &Snapshot, ids: &BTreeSet<Uuid>, names: &mut Names) {
    let is_nameless = |id: Uuid, names: &Names| ids.contains(&id) && !names.contains_key(&id);
    let mut newest_first: Vec<&SagaRecord> = snapshot.sagas.iter().collect();
    newest_first.sort_by_key(|saga| Reverse(saga.created_at));
    for saga in newest_first {
        if !is_nameless(saga.server, names) && !is_nameless(saga.id, names) {
            continue;
        }
        // An operation that this release cannot read gives no name.
        let Ok(context) = serde_json::from_str::<Context>(&saga.context) else { continue };
        if is_nameless(saga.server, names) {
            names.insert(saga.server, context.display_name.clone());
        }
        if ids.contains(&saga.id) {
            names.insert(saga.id, format!("{} of {}", saga.kind.replace('_', " "), context.display_name));
        }
    }
}

/// Returns the ids in a text.
pub(super) fn ids(text: &str) -> impl Iterator<Item = Uuid> {
    text.split(' ').filter_map(|word| id(word.trim_start_matches('(')))
}

/// Returns the id with which a word begins.
fn id(word: &str) -> Option<Uuid> {
    Uuid::try_parse(word.get(..ID)?).ok()
}

/// Returns a text with the name of each server, image, port, provider and consumer before its id, and the name of each operation behind it.
pub(super) fn named(text: &str, names: &Names) -> String {
    let mut before = "";
    let words = text.split(' ').map(|word| {
        let noun = std::mem::replace(&mut before, word).trim_start_matches('(');
        let Some((name, end)) = id(word).and_then(|id| Some((names.get(&id)?, &word[ID..]))) else { return word.to_owned() };
        // A control character could move the terminal's cursor.
        let name: String = name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        match noun {
            "server" | "image" | "port" | "provider" | "consumer" => format!("{name} ({}){end}", &word[..ID]),
            "migration" | "operation" => format!("{} ({name}){end}", &word[..ID]),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{A, MOVE, R, healthy};
    use super::*;
    use crate::domain::context::RequestContext;
    use crate::saga::context::Request;

    #[test]
    fn names_stand_beside_ids() {
        let names = Names::from([(A, "web\n1".to_owned()), (MOVE, "resize of web".to_owned())]);
        let text = format!("migration {MOVE}: server {A}, held (`heal --server {A}`), volume {A}, server {R}");
        let expected = format!("migration {MOVE} (resize of web): server web 1 ({A}), held (`heal --server {A}`), volume {A}, server {R}");
        assert_eq!(named(&text, &names), expected);
    }

    #[test]
    fn a_report_has_the_names_of_its_ids_alone() {
        let world = healthy();
        assert_eq!(of(&world, &BTreeSet::from([A])), Names::from([(A, "name".to_owned())]));
        assert_eq!(ids(&format!("server {A} (migration {MOVE}): {R}")).collect::<Vec<_>>(), [A, MOVE, R]);
    }

    #[test]
    fn operations_know_servers_that_are_gone() {
        let mut world = healthy();
        for cell in world.cells.values_mut() {
            cell.records.instances.clear();
        }
        let mut context = Context::new(MOVE, RequestContext::default(), R, Request::Stop);
        context.display_name = "called so".into();
        world.sagas[0].context = serde_json::to_string(&context).unwrap();
        let names = of(&world, &BTreeSet::from([R, MOVE]));
        assert_eq!(names.get(&R).map(String::as_str), Some("called so"));
        assert_eq!(names.get(&MOVE).map(String::as_str), Some("resize of called so"));
    }
}
