//! The trees of providers: parents and roots by id.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::Provider;

/// All providers, ordered by name.
pub struct Tree {
    pub providers: Vec<Arc<Provider>>,
    parents: BTreeMap<Uuid, Uuid>,
    roots: BTreeMap<Uuid, Uuid>,
    places: BTreeMap<Uuid, usize>,
    members: BTreeMap<Uuid, Vec<usize>>,
}

impl Tree {
    /// Builds the trees from all providers with their parents. Walks each path only once, so the work grows with the number of providers
    /// and not with the height of the trees.
    pub fn of<P: Into<Arc<Provider>>>(all: Vec<(P, Option<Uuid>)>) -> Tree {
        let all: Vec<(Arc<Provider>, Option<Uuid>)> = all.into_iter().map(|(provider, parent)| (provider.into(), parent)).collect();
        let parents: BTreeMap<Uuid, Uuid> = all.iter().filter_map(|(provider, parent)| Some((provider.uuid, (*parent)?))).collect();
        let mut roots = BTreeMap::new();
        for (provider, _) in &all {
            let (mut way, mut at) = (Vec::new(), provider.uuid);
            // A circle cannot be stored; the bound prevents an endless walk in case one was.
            while !roots.contains_key(&at) && way.len() <= all.len() {
                way.push(at);
                match parents.get(&at) {
                    Some(above) => at = *above,
                    None => break,
                }
            }
            let root = roots.get(&at).copied().unwrap_or(at);
            roots.extend(way.into_iter().map(|below| (below, root)));
        }
        let mut members: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
        for (place, (provider, _)) in all.iter().enumerate() {
            let root = roots.get(&provider.uuid).copied().unwrap_or(provider.uuid);
            members.entry(root).or_default().push(place);
        }
        let places = all.iter().enumerate().map(|(place, (provider, _))| (provider.uuid, place)).collect();
        Tree { providers: all.into_iter().map(|(provider, _)| provider).collect(), parents, roots, places, members }
    }

    /// Returns the provider with this id.
    pub fn provider(&self, uuid: Uuid) -> Option<&Provider> {
        self.places.get(&uuid).map(|place| &*self.providers[*place])
    }

    /// Counts these amounts of a provider as used.
    pub fn take(&mut self, uuid: Uuid, resources: &BTreeMap<String, i64>) {
        let Some(place) = self.places.get(&uuid) else { return };
        let provider = Arc::make_mut(&mut self.providers[*place]);
        for (class, amount) in resources {
            *provider.usages.entry(class.clone()).or_insert(0) += amount;
        }
    }

    /// Returns the providers of a root's tree, the root among them, by name.
    pub fn below(&self, root: Uuid) -> impl Iterator<Item = &Provider> {
        self.members.get(&root).into_iter().flatten().map(|place| &*self.providers[*place])
    }

    /// Returns the provider's parent.
    pub fn parent(&self, uuid: Uuid) -> Option<Uuid> {
        self.parents.get(&uuid).copied()
    }

    /// Returns the root of a provider's tree. An unknown provider is its own root.
    pub fn root(&self, uuid: Uuid) -> Uuid {
        self.roots.get(&uuid).copied().unwrap_or(uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(n: u128) -> Provider {
        let (uuid, name) = (Uuid::from_u128(n), n.to_string());
        let none = (BTreeMap::new(), BTreeMap::new());
        Provider { uuid, name, generation: 0, inventories: none.0, usages: none.1, traits: Vec::new(), aggregates: Vec::new() }
    }

    #[test]
    fn a_long_chain_and_a_circle_have_a_root() {
        let id = Uuid::from_u128;
        let chain = |n: u128| (provider(n), (n > 1).then(|| id(n - 1)));
        let tree = Tree::of((1..=20_000).rev().map(chain).collect());
        assert!((1..=20_000).all(|n| tree.root(id(n)) == id(1)));
        assert_eq!((tree.parent(id(1)), tree.parent(id(7)), tree.provider(id(7)).unwrap().name.as_str()), (None, Some(id(6)), "7"));
        assert_eq!(tree.root(id(0)), id(0));
        let circle = Tree::of(vec![(provider(1), Some(id(2))), (provider(2), Some(id(1)))]);
        assert_eq!(circle.root(id(1)), circle.root(id(2)));
    }
}
