//! An actor's address that outlives the actor: the supervisor replaces it by the successor's.

use std::sync::Arc;

use actix::{Actor, Addr};
use parking_lot::RwLock;

/// A shared address of an actor.
pub struct Address<A: Actor> {
    current: Arc<RwLock<Addr<A>>>,
}

impl<A: Actor> Clone for Address<A> {
    fn clone(&self) -> Address<A> {
        Address { current: Arc::clone(&self.current) }
    }
}

impl<A: Actor> Address<A> {
    /// Wraps the address of a running actor.
    pub fn new(address: Addr<A>) -> Address<A> {
        Address { current: Arc::new(RwLock::new(address)) }
    }

    /// Leads all clones to the successor.
    pub fn replace(&self, successor: Addr<A>) {
        *self.current.write() = successor;
    }

    /// Returns the present address.
    pub fn get(&self) -> Addr<A> {
        self.current.read().clone()
    }
}
