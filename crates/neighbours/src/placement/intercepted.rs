//! A placement service behind a test. The test sees the questions for candidates and the writes of allocations, and may fail or delay them.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use uuid::Uuid;

use super::{Allocations, ChildProvider, HostDemand, Inventory, Offer, PlacementService, ProjectAllocation, Provider};
use crate::ServiceError;

/// Sees calls of placement before `placement` does, and passes them on unless the test says otherwise.
#[async_trait]
pub trait Interceptor: Send + Sync {
    /// Answers [`PlacementService::candidates`].
    async fn candidates(&self, placement: &dyn PlacementService, demand: HostDemand) -> Result<Vec<Offer>, ServiceError> {
        placement.candidates(demand).await
    }

    /// Answers [`PlacementService::replace_allocations`].
    async fn replace_allocations(
        &self,
        placement: &dyn PlacementService,
        fence: Fence,
        changes: Vec<Allocations>,
    ) -> Result<(), ServiceError> {
        placement.replace_allocations(fence, changes).await
    }
}

/// Placement with an interceptor before it.
pub struct Intercepted<I> {
    placement: Arc<dyn PlacementService>,
    /// The test's interceptor.
    pub interceptor: I,
}

impl<I: Interceptor> Intercepted<I> {
    /// Puts the interceptor before placement.
    pub fn new(placement: Arc<dyn PlacementService>, interceptor: I) -> Intercepted<I> {
        Intercepted { placement, interceptor }
    }
}

#[async_trait]
impl<I: Interceptor> PlacementService for Intercepted<I> {
    async fn ensure_provider(
        &self,
        uuid: Uuid,
        name: &str,
        inventories: BTreeMap<String, Inventory>,
        traits: Vec<String>,
    ) -> Result<(), ServiceError> {
        self.placement.ensure_provider(uuid, name, inventories, traits).await
    }

    async fn empty_provider(&self, uuid: Uuid) -> Result<(), ServiceError> {
        self.placement.empty_provider(uuid).await
    }

    async fn set_member(&self, host: &str, aggregate: Uuid, is_member: bool) -> Result<(), ServiceError> {
        self.placement.set_member(host, aggregate, is_member).await
    }

    async fn ensure_children(&self, root: Uuid, children: Vec<ChildProvider>) -> Result<(), ServiceError> {
        self.placement.ensure_children(root, children).await
    }

    async fn candidates(&self, demand: HostDemand) -> Result<Vec<Offer>, ServiceError> {
        self.interceptor.candidates(&*self.placement, demand).await
    }

    async fn roots_among(&self, providers: Vec<Uuid>) -> Result<Vec<Arc<Provider>>, ServiceError> {
        self.placement.roots_among(providers).await
    }

    async fn providers(&self) -> Result<Vec<Provider>, ServiceError> {
        self.placement.providers().await
    }

    async fn trees(&self, roots: Option<Vec<Uuid>>) -> Result<Vec<(Provider, Option<Uuid>)>, ServiceError> {
        self.placement.trees(roots).await
    }

    async fn allocations_of(&self, consumer: Uuid) -> Result<Option<Allocations>, ServiceError> {
        self.placement.allocations_of(consumer).await
    }

    async fn all_allocations(&self) -> Result<Vec<Allocations>, ServiceError> {
        self.placement.all_allocations().await
    }

    async fn held_by_project(&self, project_id: &str) -> Result<Vec<ProjectAllocation>, ServiceError> {
        self.placement.held_by_project(project_id).await
    }

    async fn replace_allocations(&self, fence: Fence, changes: Vec<Allocations>) -> Result<(), ServiceError> {
        self.interceptor.replace_allocations(&*self.placement, fence, changes).await
    }
}
