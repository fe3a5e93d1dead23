//! Commands to a running guest: it dumps its memory after an interrupt, and takes another password.

use cellshift_domain::host_protocol::HostReply;
use cellshift_domain::secret::Sealed;
use uuid::Uuid;

use super::first_boot::{crypt, salt};
use super::host::{CommandError, Host};
use super::lanes::Admission;

type Outcome = Result<HostReply, CommandError>;

impl Host {
    pub(super) async fn inject_nmi(&self, admission: &Admission) -> Outcome {
        let server = admission.fence.server;
        self.back_after_interruption(admission).await?;
        self.virt(move |hypervisor| hypervisor.inject_nmi(server)).await?;
        Ok(HostReply::Done)
    }

    /// The guest keeps a hash, as its `/etc/shadow` does. A repeated try of the operation gives the same one.
    pub(super) async fn set_password(&self, admission: &Admission, operation: Uuid, sealed: &Sealed) -> Outcome {
        let server = admission.fence.server;
        self.back_after_interruption(admission).await?;
        let (key, sealed) = (self.key.clone(), sealed.clone());
        let hashed = self.blocking(move || {
            let password = key.opened(&sealed)?.admin_pass.ok_or_else(|| CommandError::Refused("there is no password to set".into()))?;
            crypt(password.expose(), &salt(server, operation))
        });
        let hash = hashed.await??;
        self.virt(move |hypervisor| hypervisor.set_password(server, &hash)).await?;
        Ok(HostReply::Done)
    }
}
