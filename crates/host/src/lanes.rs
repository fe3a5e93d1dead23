//! The order of requests on a host, with one lane per server. A lane refuses a request that a higher fence has overtaken. It answers a
//! repeated request with the remembered reply, or lets it join the running one. It tells running requests when they are overtaken. Lanes of
//! different servers share only the host's room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellshift_domain::fence::Fence;
use cellshift_domain::flavor::Resources;
use cellshift_domain::guest::GuestSpec;
use cellshift_domain::host_network::{FunctionWish, VirtualFunction};
use cellshift_domain::host_protocol::{HostClaim, HostCommand, HostReply};
use cellshift_domain::secret::Sealed;
use cellshift_env::guard::{Guard, stands};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use uuid::Uuid;

use super::link::{Delivered, LONGEST_PATIENCE};
use super::memory::ServerMemory;

/// The progress of a copy.
#[derive(Default)]
pub(super) struct Progress {
    pub operation: Uuid,
    pub done: AtomicU64,
    pub total: AtomicU64,
}

impl Progress {
    pub fn advance(&self, bytes: usize) {
        self.done.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Lane {
    memory: ServerMemory,
    /// The fence on the disk.
    recorded: (i64, i64),
    tickets: Vec<Ticket>,
    turn: Arc<tokio::sync::Mutex<()>>,
    progress: Option<Arc<Progress>>,
    /// True until this incarnation of the host has learnt that a start is the server's latest attempt.
    may_be_behind: bool,
}

impl Lane {
    fn is_idle(&self) -> bool {
        self.memory.claims.is_empty() && self.tickets.is_empty()
    }
}

struct Ticket {
    id: u64,
    fence: (i64, i64),
    digest: String,
    overtaken: watch::Sender<bool>,
    reply: watch::Receiver<Option<HostReply>>,
}

/// All lanes of a host.
pub(super) struct Lanes {
    /// The limit of all claims.
    limit: Resources,
    /// All virtual functions of the host.
    functions: Vec<VirtualFunction>,
    inner: Mutex<Inner>,
}

struct Inner {
    lanes: BTreeMap<Uuid, Lane>,
    next_ticket: u64,
}

/// The reception of a request.
pub(super) enum Entry {
    /// The reply is known.
    Answer(HostReply),
    /// The same request runs. Its reply will arrive here, or the channel closes without one.
    Join(watch::Receiver<Option<HostReply>>),
    /// The request runs as soon as it has its turn.
    Run(Admission),
    /// The host works on as many requests as it takes at once. The lane is as before.
    Busy,
}

/// A request's place in its lane, until this is dropped.
pub(super) struct Admission {
    lanes: Arc<Lanes>,
    id: u64,
    pub fence: Fence,
    pub digest: String,
    pub turn: Arc<tokio::sync::Mutex<()>>,
    overtaken: watch::Receiver<bool>,
    reply: watch::Sender<Option<HostReply>>,
    /// A place of the host's, for a controller's request.
    _place: Option<OwnedSemaphorePermit>,
}

/// Returns the digest under which a command's reply is remembered. It leaves out sealed values, because each try seals them anew.
pub(super) fn digest(command: &HostCommand) -> String {
    let bare = match command {
        HostCommand::PrepareGuest { spec } if spec.sealed.is_some() => {
            HostCommand::PrepareGuest { spec: Box::new(GuestSpec { sealed: None, ..(**spec).clone() }) }
        }
        HostCommand::RescueGuest { image_id, config_drive, sealed: Some(_) } => {
            HostCommand::RescueGuest { image_id: *image_id, config_drive: config_drive.clone(), sealed: None }
        }
        // An operation sets one password, and a fence is one operation's.
        HostCommand::SetPassword { .. } => HostCommand::SetPassword { sealed: Sealed::new(String::new()) },
        _ => return digest_of(command),
    };
    digest_of(&bare)
}

fn digest_of(command: &HostCommand) -> String {
    hex::encode(Sha256::digest(serde_json::to_vec(command).unwrap_or_default()))
}

fn stale((epoch, attempt): (i64, i64)) -> HostReply {
    HostReply::Stale { epoch, attempt }
}

impl Lanes {
    /// Makes lanes with the memories from the disk. `limit` is the capacity times the ratio.
    pub fn new(limit: Resources, functions: Vec<VirtualFunction>, memories: BTreeMap<Uuid, ServerMemory>) -> Arc<Lanes> {
        let lane = |memory: ServerMemory| Lane { recorded: memory.fence, memory, may_be_behind: true, ..Lane::default() };
        let lanes = memories.into_iter().map(|(server, memory)| (server, lane(memory))).collect();
        Arc::new(Lanes { limit, functions, inner: Mutex::new(Inner { lanes, next_ticket: 0 }) })
    }

    fn with<T>(&self, server: Uuid, work: impl FnOnce(&mut Lane) -> T) -> T {
        work(self.inner.lock().lanes.entry(server).or_default())
    }

    /// Takes a controller's request into its lane. Fails with the answer if the request does not run: it is stale, its reply is remembered,
    /// it has joined the same request at work, or no place is free. A request that has joined waits for [`LONGEST_PATIENCE`] at most, because
    /// its sender does not wait longer.
    pub async fn enter(
        self: &Arc<Self>,
        fence: Fence,
        command: &HostCommand,
        places: &Arc<Semaphore>,
    ) -> Result<Admission, Delivered<HostReply>> {
        let digest = digest(command);
        let mut has_begun = false;
        loop {
            match self.admit(fence, digest.clone(), Some(places)) {
                Entry::Answer(reply) => return Err(Delivered::Answered(reply)),
                Entry::Busy if has_begun => return Err(Delivered::CannotTell),
                Entry::Busy => return Err(Delivered::Busy),
                Entry::Run(admission) => return Ok(admission),
                Entry::Join(mut reply) => {
                    let joined = timeout(LONGEST_PATIENCE, reply.wait_for(Option::is_some)).await;
                    match joined.map(|reply| reply.ok().and_then(|reply| reply.clone())) {
                        Ok(Some(reply)) => return Err(Delivered::Answered(reply)),
                        // The joined request broke off without a reply, so this request runs.
                        Ok(None) => has_begun = true,
                        Err(_) => return Err(Delivered::CannotTell),
                    }
                }
            }
        }
    }

    /// Admits a request, or answers it. A request that runs takes one of the `places`, if there are any to take.
    pub fn admit(self: &Arc<Self>, fence: Fence, digest: String, places: Option<&Arc<Semaphore>>) -> Entry {
        let mut inner = self.inner.lock();
        let Inner { lanes, next_ticket } = &mut *inner;
        let lane = lanes.entry(fence.server).or_default();
        if stands(Guard::HostFence) && fence.is_below(lane.memory.fence) {
            return Entry::Answer(stale(lane.memory.fence));
        }
        if fence.pair() == lane.memory.fence {
            if stands(Guard::JoinedRequest)
                && let Some(same) = lane.tickets.iter().find(|ticket| ticket.fence == fence.pair() && ticket.digest == digest)
            {
                return Entry::Join(same.reply.clone());
            }
            if stands(Guard::RememberedReply)
                && let Some(reply) = lane.memory.replies.get(&digest)
            {
                return Entry::Answer(reply.clone());
            }
        }
        let place = match places.map(|places| places.clone().try_acquire_owned()) {
            Some(Err(_)) => return Entry::Busy,
            Some(Ok(place)) => Some(place),
            None => None,
        };
        if lane.memory.fence < fence.pair() {
            lane.memory.fence = fence.pair();
            lane.memory.replies.clear();
            for ticket in lane.tickets.iter().filter(|_| stands(Guard::Overtaking)) {
                ticket.overtaken.send_replace(true);
            }
        }
        *next_ticket += 1;
        let (overtaken_sender, overtaken) = watch::channel(false);
        let (reply, reply_receiver) = watch::channel(None);
        let ticket =
            Ticket { id: *next_ticket, fence: fence.pair(), digest: digest.clone(), overtaken: overtaken_sender, reply: reply_receiver };
        let (id, turn) = (ticket.id, lane.turn.clone());
        lane.tickets.push(ticket);
        Entry::Run(Admission { lanes: self.clone(), id, fence, digest, turn, overtaken, reply, _place: place })
    }

    /// Claims room and virtual functions under `holder`, in place of its earlier claim. Returns the functions, or the reason why the room
    /// is too small or no function is free.
    pub fn claim(
        &self,
        server: Uuid,
        holder: Uuid,
        room: Resources,
        wishes: &[FunctionWish],
    ) -> Result<BTreeMap<Uuid, VirtualFunction>, String> {
        let mut inner = self.inner.lock();
        let mut held = Resources::default();
        for (owner, lane) in &inner.lanes {
            for (key, amount) in &lane.memory.claims {
                if (*owner, *key) != (server, holder) {
                    held.vcpu += amount.room.vcpu;
                    held.memory_mb += amount.room.memory_mb;
                    held.disk_gb += amount.room.disk_gb;
                }
            }
        }
        let limit = self.limit;
        let classes = [
            ("VCPU", room.vcpu, limit.vcpu - held.vcpu),
            ("MEMORY_MB", room.memory_mb, limit.memory_mb - held.memory_mb),
            ("DISK_GB", room.disk_gb, limit.disk_gb - held.disk_gb),
        ];
        if stands(Guard::HostRoom)
            && let Some((class, amount, free)) = classes.into_iter().find(|(_, amount, free)| *amount > 0 && amount > free)
        {
            return Err(format!("the claim does not fit: {amount} {class} are wanted and {} are free", free.max(0)));
        }
        let functions = self.choose(&inner, (server, holder), wishes)?;
        let claim = HostClaim { room, functions: functions.clone() };
        inner.lanes.entry(server).or_default().memory.claims.insert(holder, claim);
        Ok(functions)
    }

    /// Returns the virtual functions that no claim has.
    pub fn free_functions(&self) -> Vec<VirtualFunction> {
        let inner = self.inner.lock();
        let claims = inner.lanes.values().flat_map(|lane| lane.memory.claims.values());
        let slots: BTreeSet<&str> = claims.flat_map(|claim| claim.functions.values()).map(|function| function.pci_slot.as_str()).collect();
        self.functions.iter().filter(|function| !slots.contains(function.pci_slot.as_str())).cloned().collect()
    }

    /// Chooses a free virtual function for each port. A port keeps the function that its claim has, if that still fulfils the wish. Ports that
    /// any physical function serves come last, so that they take none that another port needs.
    fn choose(&self, inner: &Inner, claim: (Uuid, Uuid), wishes: &[FunctionWish]) -> Result<BTreeMap<Uuid, VirtualFunction>, String> {
        let all = inner.lanes.iter().flat_map(|(owner, lane)| lane.memory.claims.iter().map(move |(key, held)| ((*owner, *key), held)));
        let (own, others): (Vec<_>, Vec<_>) = all.partition(|(key, _)| *key == claim);
        let mut slots: BTreeSet<&str> =
            others.iter().flat_map(|(_, held)| held.functions.values()).map(|function| function.pci_slot.as_str()).collect();
        let mut chosen = BTreeMap::new();
        let (bound, free): (Vec<&FunctionWish>, Vec<&FunctionWish>) = wishes.iter().partition(|wish| wish.parent_ifname.is_some());
        for wish in bound.into_iter().chain(free) {
            let kept = own.iter().find_map(|(_, held)| held.functions.get(&wish.port)).filter(|function| self.functions.contains(function));
            let free = kept
                .into_iter()
                .chain(&self.functions)
                .find(|function| wish.is_met_by(function) && !slots.contains(function.pci_slot.as_str()));
            let Some(function) = free else {
                return Err(format!("the claim does not fit: {wish} is wanted for port {} and none is free", wish.port));
            };
            slots.insert(&function.pci_slot);
            chosen.insert(wish.port, function.clone());
        }
        Ok(chosen)
    }

    /// Changes a server's claims in a way that needs no room. Returns the earlier claims.
    pub fn change_claims(&self, server: Uuid, change: impl FnOnce(&mut BTreeMap<Uuid, HostClaim>)) -> BTreeMap<Uuid, HostClaim> {
        self.with(server, |lane| {
            let before = lane.memory.claims.clone();
            change(&mut lane.memory.claims);
            before
        })
    }

    /// Returns all claims on the host in order.
    pub fn claims(&self) -> Vec<(Uuid, HostClaim)> {
        let inner = self.inner.lock();
        inner.lanes.values().flat_map(|lane| lane.memory.claims.iter().map(|(holder, claim)| (*holder, claim.clone()))).collect()
    }

    /// Returns the claims of each server that has any.
    pub fn claims_by_server(&self) -> BTreeMap<Uuid, Vec<(Uuid, HostClaim)>> {
        let inner = self.inner.lock();
        let with_claims = inner.lanes.iter().filter(|(_, lane)| !lane.memory.claims.is_empty());
        with_claims.map(|(server, lane)| (*server, lane.memory.held())).collect()
    }

    /// Returns the server's memory, and whether its fence must still be recorded.
    pub fn memory(&self, server: Uuid) -> (ServerMemory, bool) {
        self.with(server, |lane| (lane.memory.clone(), lane.recorded < lane.memory.fence))
    }

    /// Returns the server's highest fence.
    pub fn fence(&self, server: Uuid) -> (i64, i64) {
        self.inner.lock().lanes.get(&server).map_or((0, 0), |lane| lane.memory.fence)
    }

    /// True if the server may have been moved while the host was away, and the lane's fence does not tell.
    pub fn may_be_behind(&self, server: Uuid) -> bool {
        self.with(server, |lane| lane.may_be_behind)
    }

    /// Notes that the lane's fence is the server's latest, so that it refuses each earlier start.
    pub fn is_abreast(&self, server: Uuid) {
        self.with(server, |lane| lane.may_be_behind = false);
    }

    /// Returns the servers without claims and without requests at work: only a fence is remembered of them.
    pub fn idle(&self) -> Vec<Uuid> {
        let inner = self.inner.lock();
        inner.lanes.iter().filter(|(_, lane)| lane.is_idle()).map(|(server, _)| *server).collect()
    }

    /// Forgets a server, unless it has become busy. True if it is forgotten.
    pub fn forget(&self, server: Uuid) -> bool {
        let mut inner = self.inner.lock();
        let idle = inner.lanes.get(&server).is_some_and(Lane::is_idle);
        if idle {
            inner.lanes.remove(&server);
        }
        idle
    }

    /// Notes that a memory with this fence is on the disk.
    pub fn recorded(&self, server: Uuid, fence: (i64, i64)) {
        self.with(server, |lane| lane.recorded = lane.recorded.max(fence));
    }

    /// Starts counting a copy for the server.
    pub fn begin_progress(&self, server: Uuid, operation: Uuid, total: u64) -> Arc<Progress> {
        let progress = Arc::new(Progress { operation, done: AtomicU64::new(0), total: AtomicU64::new(total) });
        self.with(server, |lane| lane.progress = Some(progress.clone()));
        progress
    }

    /// Returns the moved bytes and all bytes of the operation's latest copy; zeros if it has copied nothing here.
    pub fn progress(&self, operation: Uuid) -> (u64, u64) {
        let inner = self.inner.lock();
        let progress = inner.lanes.values().filter_map(|lane| lane.progress.as_ref()).find(|progress| progress.operation == operation);
        progress.map_or((0, 0), |progress| (progress.done.load(Ordering::Relaxed), progress.total.load(Ordering::Relaxed)))
    }
}

impl Admission {
    /// Returns the refusal of this request if a higher fence has overtaken it.
    pub fn stale(&self) -> Option<HostReply> {
        let highest = self.lanes.fence(self.fence.server);
        let counts = stands(Guard::HostFence) && stands(Guard::HostTurn);
        (counts && self.fence.is_below(highest)).then(|| stale(highest))
    }

    /// True if a higher fence has overtaken this request.
    pub fn is_overtaken(&self) -> bool {
        *self.overtaken.borrow()
    }

    /// Waits until a higher fence overtakes this request.
    pub async fn overtaken(&self) {
        let mut watch = self.overtaken.clone();
        if watch.wait_for(|overtaken| *overtaken).await.is_err() {
            futures::future::pending::<()>().await;
        }
    }

    /// Remembers the reply for repeated requests. False if a higher fence is in force.
    pub fn remember(&self, reply: &HostReply) -> bool {
        self.lanes.with(self.fence.server, |lane| {
            let current = lane.memory.fence == self.fence.pair();
            if current {
                lane.memory.replies.insert(self.digest.clone(), reply.clone());
            }
            current
        })
    }

    /// Undoes `remember`, because the effect could not be recorded.
    pub fn forget(&self) {
        self.lanes.with(self.fence.server, |lane| lane.memory.replies.remove(&self.digest));
    }

    /// Sends the reply to the requests that have joined.
    pub fn publish(&self, reply: HostReply) {
        self.reply.send_replace(Some(reply));
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let id = self.id;
        self.lanes.with(self.fence.server, |lane| lane.tickets.retain(|ticket| ticket.id != id));
    }
}
