//! The search for allocation candidates: in each tree of providers, all ways to meet every group of a query.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::Provider;
use super::tree::Tree;

/// The most candidates of one tree and the most steps of its search: trees with many equal providers have endlessly many.
const PER_TREE: usize = 1000;
const STEPS: usize = 100_000;

/// The trait of a provider that gives to all members of its aggregates, such as storage that several hosts share.
const SHARES: &str = "MISC_SHARES_VIA_AGGREGATE";

/// The demand for traits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Traits {
    /// Of each set one trait must be there.
    pub required: Vec<BTreeSet<String>>,
    /// None of these may be there.
    pub forbidden: BTreeSet<String>,
}

impl Traits {
    /// True if these traits meet the demand.
    pub fn are_met_by<'a>(&self, held: impl Iterator<Item = &'a String>) -> bool {
        let held: BTreeSet<&String> = held.collect();
        self.required.iter().all(|any| any.iter().any(|name| held.contains(name))) && !self.forbidden.iter().any(|name| held.contains(name))
    }
}

/// The demands that one provider (or, for the group without a suffix, the providers of one tree) must meet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// Amounts by class.
    pub resources: BTreeMap<String, i64>,
    pub traits: Traits,
    /// Of each set one aggregate must have the provider.
    pub member_of: Vec<BTreeSet<Uuid>>,
    /// No aggregate of these may.
    pub no_member_of: BTreeSet<Uuid>,
    pub in_tree: Option<Uuid>,
}

/// A query for candidates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// By suffix. The suffix of the first, which may spread over a tree, is empty.
    pub groups: BTreeMap<String, Group>,
    pub root: Traits,
    pub isolate: bool,
    pub same_subtree: Vec<BTreeSet<String>>,
    pub limit: Option<usize>,
}

/// A way to meet a query: by suffix, for each provider the amounts that it gives.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Candidate {
    parts: BTreeMap<String, BTreeMap<Uuid, BTreeMap<String, i64>>>,
}

impl Candidate {
    /// Returns the providers, also those that only meet demands for traits.
    pub fn providers(&self) -> impl Iterator<Item = Uuid> {
        self.parts.values().flat_map(BTreeMap::keys).copied()
    }

    /// Returns the providers of each group, by suffix.
    pub fn mappings(&self) -> BTreeMap<&String, Vec<Uuid>> {
        self.parts.iter().map(|(suffix, part)| (suffix, part.keys().copied().collect())).collect()
    }

    /// Returns the amounts by provider and class.
    pub fn allocations(&self) -> BTreeMap<Uuid, BTreeMap<String, i64>> {
        let mut sums: BTreeMap<Uuid, BTreeMap<String, i64>> = BTreeMap::new();
        for (provider, amounts) in self.parts.values().flatten() {
            // A group may ask for traits alone.
            for (class, amount) in amounts {
                *sums.entry(*provider).or_default().entry(class.clone()).or_insert(0) += amount;
            }
        }
        sums
    }
}

/// Returns the candidates, tree by tree in the order of the roots' names. Providers that share what they have with their aggregates
/// ([`SHARES`]) give to each tree with a member of these aggregates.
pub fn candidates(tree: &Tree, query: &Query) -> Vec<Candidate> {
    let mut by_root: BTreeMap<Uuid, Vec<&Provider>> = BTreeMap::new();
    let mut roots = Vec::new();
    for provider in &tree.providers {
        let root = tree.root(provider.uuid);
        by_root.entry(root).or_default().push(provider);
        if root == provider.uuid {
            roots.push(provider);
        }
    }
    for (root, shared) in shared(tree) {
        by_root.entry(root).or_default().extend(shared);
    }
    let limit = query.limit.unwrap_or(usize::MAX);
    let (mut candidates, mut seen) = (Vec::new(), BTreeSet::new());
    for root in roots.into_iter().filter(|root| query.root.are_met_by(root.traits.iter())) {
        let ways = in_tree(tree, query, root, &by_root[&root.uuid], PER_TREE);
        // A shared provider alone can serve for several trees.
        candidates.extend(ways.into_iter().filter(|way| seen.insert(way.clone())));
        if candidates.len() >= limit {
            break;
        }
    }
    candidates.truncate(limit);
    candidates
}

/// Returns by root the providers of other trees that share with it.
fn shared(tree: &Tree) -> BTreeMap<Uuid, Vec<&Provider>> {
    let mut reached: BTreeMap<Uuid, BTreeSet<Uuid>> = BTreeMap::new();
    for provider in &tree.providers {
        for aggregate in &provider.aggregates {
            reached.entry(aggregate.id()).or_default().insert(tree.root(provider.uuid));
        }
    }
    let mut shared: BTreeMap<Uuid, Vec<&Provider>> = BTreeMap::new();
    for provider in tree.providers.iter().filter(|provider| provider.traits.iter().any(|name| name == SHARES)) {
        let own = tree.root(provider.uuid);
        let roots: BTreeSet<Uuid> =
            provider.aggregates.iter().filter_map(|aggregate| reached.get(&aggregate.id())).flatten().copied().collect();
        for root in roots.into_iter().filter(|root| *root != own) {
            shared.entry(root).or_default().push(provider);
        }
    }
    shared
}

/// Returns the first way to meet the query in the tree of this root.
pub fn first_in(tree: &Tree, query: &Query, root: Uuid) -> Option<Candidate> {
    up_to(tree, query, root, 1).pop_first()
}

/// Returns at most this many ways to meet the query in the tree of this root.
pub fn up_to(tree: &Tree, query: &Query, root: Uuid, most: usize) -> BTreeSet<Candidate> {
    let Some(provider) = tree.provider(root) else { return BTreeSet::new() };
    let members: Vec<&Provider> = tree.below(root).collect();
    in_tree(tree, query, provider, &members, most)
}

fn in_tree(tree: &Tree, query: &Query, root: &Provider, members: &[&Provider], most: usize) -> BTreeSet<Candidate> {
    let mut search = Search { tree, query, root, members, most, candidates: BTreeSet::new(), steps: 0 };
    search.descend(&query.groups.iter().collect::<Vec<_>>(), &mut Candidate::default());
    search.candidates
}

struct Search<'a> {
    tree: &'a Tree,
    query: &'a Query,
    root: &'a Provider,
    members: &'a [&'a Provider],
    /// The requested number of candidates.
    most: usize,
    candidates: BTreeSet<Candidate>,
    steps: usize,
}

impl Search<'_> {
    /// Meets the first of the groups that are left in every way.
    fn descend(&mut self, groups: &[(&String, &Group)], at: &mut Candidate) {
        self.steps += 1;
        if self.steps > STEPS || self.candidates.len() >= self.most {
            return;
        }
        let Some(((suffix, group), rest)) = groups.split_first() else {
            if self.is_whole(at) {
                self.candidates.insert(at.clone());
            }
            return;
        };
        for part in self.ways(suffix, group) {
            at.parts.insert((*suffix).clone(), part);
            if self.has_room(at) {
                self.descend(rest, at);
            }
            at.parts.remove(*suffix);
        }
    }

    /// Returns the ways to meet one group alone. With a suffix it comes from one provider; without, each class may come from another.
    fn ways(&self, suffix: &str, group: &Group) -> Vec<BTreeMap<Uuid, BTreeMap<String, i64>>> {
        if !suffix.is_empty() {
            let belongs = |provider: &Provider| is_member(provider, group) && !is_forbidden(provider, group) && self.is_in(provider, group);
            let fits = self.members.iter().filter(|provider| belongs(provider) && group.traits.are_met_by(provider.traits.iter()));
            return fits.map(|provider| BTreeMap::from([(provider.uuid, group.resources.clone())])).collect();
        }
        // A root in the aggregates brings its whole tree with it, and takes it along where it is forbidden.
        let reached = |provider: &Provider| {
            let root = self.tree.provider(self.tree.root(provider.uuid)).unwrap_or(self.root);
            let is_forbidden = is_forbidden(provider, group) || is_forbidden(root, group);
            (is_member(provider, group) || is_member(root, group)) && !is_forbidden && self.is_in(provider, group)
        };
        let mut ways: Vec<BTreeMap<Uuid, BTreeMap<String, i64>>> = vec![BTreeMap::new()];
        for (class, amount) in &group.resources {
            let givers: Vec<Uuid> = self
                .members
                .iter()
                .filter(|provider| reached(provider) && provider.has_room(class, *amount))
                .filter(|provider| !provider.traits.iter().any(|held| group.traits.forbidden.contains(held)))
                .map(|provider| provider.uuid)
                .collect();
            let longer = ways.iter().flat_map(|way| {
                givers.iter().map(move |giver| {
                    let mut way = way.clone();
                    way.entry(*giver).or_default().insert(class.clone(), *amount);
                    way
                })
            });
            ways = longer.take(PER_TREE).collect();
        }
        ways.retain(|way| {
            let givers = way.keys().filter_map(|giver| self.tree.provider(*giver));
            group.traits.are_met_by(givers.flat_map(|provider| &provider.traits))
        });
        ways
    }

    /// True if the provider is of the tree that the group names.
    fn is_in(&self, provider: &Provider, group: &Group) -> bool {
        group.in_tree.is_none_or(|id| self.tree.root(provider.uuid) == self.tree.root(id))
    }

    /// True if every provider can give all that the groups take from it together.
    fn has_room(&self, at: &Candidate) -> bool {
        at.allocations().iter().all(|(provider, amounts)| {
            let provider = self.tree.provider(*provider);
            provider.is_some_and(|provider| amounts.iter().all(|(class, amount)| provider.has_room(class, *amount)))
        })
    }

    /// True if the groups lie to each other as the query demands.
    fn is_whole(&self, at: &Candidate) -> bool {
        let giver = |suffix: &String| at.parts.get(suffix).and_then(|part| part.keys().next()).copied();
        if self.query.isolate {
            let numbered: Vec<Uuid> =
                at.parts.iter().filter(|(suffix, _)| !suffix.is_empty()).filter_map(|(suffix, _)| giver(suffix)).collect();
            if numbered.iter().collect::<BTreeSet<_>>().len() < numbered.len() {
                return false;
            }
        }
        self.query.same_subtree.iter().all(|suffixes| {
            let givers: Vec<Uuid> = suffixes.iter().filter_map(giver).collect();
            givers.iter().any(|top| givers.iter().all(|below| self.is_below(*below, *top)))
        })
    }

    /// True if `below` is `top` or lies under it.
    fn is_below(&self, below: Uuid, top: Uuid) -> bool {
        let ways = std::iter::successors(Some(below), |at| self.tree.parent(*at));
        ways.take(self.tree.providers.len() + 1).any(|at| at == top)
    }
}

fn is_member(provider: &Provider, group: &Group) -> bool {
    let held = aggregates(provider);
    group.member_of.iter().all(|any| !any.is_disjoint(&held))
}

fn is_forbidden(provider: &Provider, group: &Group) -> bool {
    !group.no_member_of.is_disjoint(&aggregates(provider))
}

fn aggregates(provider: &Provider) -> BTreeSet<Uuid> {
    provider.aggregates.iter().map(|aggregate| aggregate.id()).collect()
}
