//! Tests of the search for candidates over a small tree: a host with two network agents, each with a card, and a flat host.

use std::collections::BTreeMap;

use cellshift_domain::microversion::Microversion;
use cellshift_embedded::placement::allocation_candidates::parse;
use cellshift_embedded::placement::candidates::{Query, candidates};
use cellshift_embedded::placement::tree::Tree;
use cellshift_embedded::placement::{Inventory, Provider};
use cellshift_web::microversion::ApiVersion;
use uuid::Uuid;

const HOST: u128 = 1;
const AGENTS: [u128; 2] = [2, 3];
const CARDS: [u128; 2] = [4, 5];
const FLAT: u128 = 6;

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn provider(n: u128, stock: &[(&str, i64)], traits: &[&str]) -> Provider {
    let inventory = |total: i64| Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: 1.0 };
    Provider {
        uuid: id(n),
        name: format!("p{n}"),
        generation: 0,
        inventories: stock.iter().map(|(class, total)| ((*class).to_owned(), inventory(*total))).collect(),
        usages: BTreeMap::new(),
        traits: traits.iter().map(|name| (*name).to_owned()).collect(),
        aggregates: Vec::new(),
    }
}

fn forest() -> Tree {
    let card = |n, net: &str| provider(n, &[("NET_BW", 10)], &[net, "VNIC"]);
    Tree::of(vec![
        (provider(HOST, &[("VCPU", 4), ("MEMORY_MB", 64)], &["HW"]), None),
        (provider(AGENTS[0], &[], &["AGENT"]), Some(id(HOST))),
        (provider(AGENTS[1], &[], &["AGENT"]), Some(id(HOST))),
        (card(CARDS[0], "NET0"), Some(id(AGENTS[0]))),
        (card(CARDS[1], "NET1"), Some(id(AGENTS[1]))),
        (provider(FLAT, &[("VCPU", 8), ("MEMORY_MB", 64), ("NET_BW", 5)], &["NET0"]), None),
    ])
}

fn ask(text: &str) -> Result<Query, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned()));
    parse(&pairs.collect(), ApiVersion(Microversion { major: 1, minor: 39 })).map_err(|error| error.message)
}

/// Returns for each candidate the providers of each group, as `suffix:n+n`.
fn allocations(text: &str) -> Vec<String> {
    let query = ask(text).unwrap();
    let number = |uuid: &Uuid| uuid.as_u128().to_string();
    let shown = candidates(&forest(), &query).into_iter().map(|one| {
        let parts = one
            .mappings()
            .into_iter()
            .map(|(suffix, providers)| format!("{suffix}:{}", providers.iter().map(number).collect::<Vec<_>>().join("+")));
        parts.collect::<Vec<_>>().join(" ")
    });
    shown.collect()
}

#[test]
fn groups_trees_traits_and_subtrees_choose_providers() {
    let rows: &[(&str, &[&str])] = &[
        ("resources=VCPU:1", &[":1", ":6"]),
        ("resources=VCPU:5", &[":6"]),
        ("resources=VCPU:1,NET_BW:2", &[":1+4", ":1+5", ":6"]),
        ("resources=VCPU:1,NET_BW:6", &[":1+4", ":1+5"]),
        ("resources=VCPU:1&required=!HW", &[":6"]),
        ("resources=VCPU:1&required=HW", &[":1"]),
        ("resources=VCPU:1&required=in:HW,NET0", &[":1", ":6"]),
        ("resources=VCPU:1&in_tree=00000000-0000-0000-0000-000000000004", &[":1"]),
        ("resources=VCPU:1&root_required=!HW", &[":6"]),
        ("resources=VCPU:1&limit=1", &[":1"]),
        ("resources=VCPU:1&resources1=NET_BW:1&required1=NET1", &[":1 1:5"]),
        ("resources=VCPU:1&resources1=NET_BW:1&in_tree1=00000000-0000-0000-0000-000000000006", &[":6 1:6"]),
        // Two groups may share a card while it has room, unless they are to be isolated.
        ("resources1=NET_BW:3&resources2=NET_BW:2&group_policy=none", &["1:4 2:4", "1:4 2:5", "1:5 2:4", "1:5 2:5", "1:6 2:6"]),
        ("resources1=NET_BW:9&resources2=NET_BW:9&group_policy=none", &["1:4 2:5", "1:5 2:4"]),
        ("resources1=NET_BW:1&resources2=NET_BW:1&group_policy=isolate", &["1:4 2:5", "1:5 2:4"]),
        ("resources1=NET_BW:1&required_A=AGENT&same_subtree=1,_A", &["1:4 _A:2", "1:5 _A:3"]),
        ("resources1=NET_BW:99", &[]),
    ];
    for (text, expected) in rows {
        assert_eq!(allocations(text), *expected, "{text}");
    }
}

#[test]
fn a_query_that_makes_no_sense_is_refused() {
    for (text, words) in [
        ("group_policy=none", "At least one request group"),
        ("required=HW", "All traits parameters must be associated with resources"),
        ("resources=VCPU:1&required1=HW", "Resourceless suffixed group"),
        ("member_of1=00000000-0000-0000-0000-000000000004", "at least one resources"),
        ("resources1=VCPU:1&resources2=VCPU:1", "group_policy"),
        ("resources1=VCPU:1&group_policy=some", "is not one of"),
        ("resources=VCPU:1&same_subtree=1,2", "Real suffixes"),
        ("resources=VCPU:1&required=HW,!HW", "Conflicting required and forbidden traits found in required: HW"),
        ("resources=VCPU:1&required=", "required"),
        ("resources=VCPU:1&in_tree=here", "format of uuid"),
        ("resources=VCPU:1&limit=0", "does not match"),
        ("resources=VCPU:1&colour=red", "does not match any of the regexes"),
        ("resources=VCPU:1&root_required=HW&root_required=HW", "only once"),
    ] {
        let refused = ask(text).unwrap_err();
        assert!(refused.contains(words), "{text}: {refused}");
    }
}
