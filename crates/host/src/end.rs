//! The host as the end of a link.

use async_trait::async_trait;
use cellshift_domain::host_protocol::{HostAnswer, HostQuery, HostReply, HostRequest};

use super::host::Host;
use super::link::{Delivered, HostEnd};

#[async_trait]
impl HostEnd for Host {
    async fn request(&self, request: HostRequest) -> Delivered<HostReply> {
        self.obey(request).await
    }

    async fn query(&self, query: HostQuery) -> Delivered<HostAnswer> {
        self.answer(query).await
    }
}
