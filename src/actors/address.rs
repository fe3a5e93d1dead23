//! An actor's address that outlives the actor: its supervisor puts the successor's in.

use std::sync::{Arc, RwLock};

use actix::{Actor, Addr};

/// Shared by all who talk to the actor.
pub struct Address<A: Actor> {
    current: Arc<RwLock<Addr<A>>>,
}

impl<A: Actor> Clone for Address<A> {
    fn clone(&self) -> Address<A> {
        Address { current: Arc::clone(&self.current) }
    }
}

impl<A: Actor> Address<A> {
    /// Of a running actor.
    pub fn new(address: Addr<A>) -> Address<A> {
        Address { current: Arc::new(RwLock::new(address)) }
    }

    /// From now on every clone leads to the successor.
    pub fn replace(&self, successor: Addr<A>) {
        // A panic cannot leave half an address behind, so a poisoned lock holds a good one.
        *self.current.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = successor;
    }

    /// Where to send now.
    pub fn get(&self) -> Addr<A> {
        self.current.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}
