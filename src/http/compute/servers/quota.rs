//! Quotas of servers: the room that the project and its user have for them, and the limits of one server's contents.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::create::request::NewServerRequest;
use crate::domain::context::RequestContext;
use crate::domain::flavor::Flavor;
use crate::domain::guest_secrets::InjectedFile;
use crate::domain::host_protocol::MESSAGE_MAX;
use crate::domain::instance::Instance;
use crate::domain::quota::{CountedRoom, Limits, ServerUsage, fits};
use crate::domain::quota_grant::CheckedRoom;
use crate::domain::secret::Sealed;
use crate::http::compute::answer::{bad_request, forbidden};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::quota_usage::{Holder, Room};
use crate::http::error::ApiError;

/// The maximum number of servers in one request: each is an operation with its own journal, begun while the caller waits.
pub const MOST_AT_ONCE: i64 = 1000;

/// The maximum size of what a guest reads at its first boot, sealed and encoded. The rest of a message has its names, volumes and ports.
const FIRST_BOOT_MAX: usize = MESSAGE_MAX / 4 * 3;

/// Returns how many of the requested servers have room, and the project's room. 403 if `min_count` servers have no room.
pub async fn servers_with_room(
    catalog: &Catalog,
    caller: &RequestContext,
    request: &NewServerRequest,
    flavor: &Flavor,
) -> Result<(i64, CheckedRoom), ApiError> {
    let room = Room::of(catalog, caller.into()).await?;
    room.check_complete(catalog, caller)?;
    let more = |count: i64| ServerUsage::by(count, flavor).by_resource();
    let count = most_that_fit(request.min_count, request.max_count.min(MOST_AT_ONCE), |count| room.check(&more(count)).is_ok());
    Ok((count, room.for_servers(&more(count))?))
}

/// Returns the largest fitting count of the range by bisection; the smallest count if none fits.
fn most_that_fit(least: i64, most: i64, fits: impl Fn(i64) -> bool) -> i64 {
    let (mut low, mut high) = (least, most);
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Answers 403 unless the server's project and user have room for its growth when its resize is reverted. With usage from placement they have
/// room, because placement holds both sides until then.
pub async fn check_regrowth(catalog: &Catalog, caller: &RequestContext, server: &Instance, old: &Flavor) -> Result<(), ApiError> {
    match catalog.counting.from_placement {
        true => Ok(()),
        false => check_growth(catalog, caller, server, old).await,
    }
}

/// Answers 403 unless the server's project and user have room for its growth to this flavor.
pub async fn check_growth(catalog: &Catalog, caller: &RequestContext, server: &Instance, to: &Flavor) -> Result<(), ApiError> {
    let growth = [("cores", to.vcpus - server.flavor.vcpus), ("ram", to.memory_mb - server.flavor.memory_mb)];
    let more: Vec<(&str, i64)> = growth.into_iter().filter(|(_, by)| *by > 0).map(|(resource, by)| (resource, i64::from(by))).collect();
    if more.is_empty() {
        return Ok(());
    }
    let room = Room::of(catalog, server.into()).await?;
    room.check_complete(catalog, caller)?;
    room.check(&more)
}

/// Answers 403 unless the project and the user of a server that gets a host again have room for it. With usage from placement it holds nothing
/// until then. Returns the room that is to be checked again when the server has claimed its own.
pub async fn check_return(catalog: &Catalog, caller: &RequestContext, server: &Instance) -> Result<Option<CountedRoom>, ApiError> {
    if !catalog.counting.from_placement {
        return Ok(None);
    }
    let room = Room::of(catalog, server.into()).await?;
    room.check_complete(catalog, caller)?;
    room.check(&[("cores", i64::from(server.flavor.vcpus)), ("ram", i64::from(server.flavor.memory_mb))])?;
    Ok(room.counted_for_again())
}

/// Answers 403 unless the project and the user of a server that is restored have room for it: it has not counted since its soft delete, except
/// that placement still holds its cores and memory.
pub async fn check_restore(catalog: &Catalog, caller: &RequestContext, server: &Instance) -> Result<(), ApiError> {
    let room = Room::of(catalog, server.into()).await?;
    room.check_complete(catalog, caller)?;
    let held = catalog.counting.from_placement;
    let more = ServerUsage::by(1, &server.flavor).by_resource();
    room.check(&more.into_iter().filter(|(resource, _)| !held || *resource == "instances").collect::<Vec<_>>())
}

/// Answers 403 if a new server's contents would exceed the limits of the project or of the caller.
pub async fn check_contents(catalog: &Catalog, caller: &RequestContext, request: &NewServerRequest) -> Result<(), ApiError> {
    if request.metadata.is_empty() && request.personality.is_empty() {
        return Ok(());
    }
    contents_within(&Holder::from(caller).limits(catalog).await?.lower(), request.metadata.len(), &request.personality)
}

/// Answers 403 if the metadata of a server or an image would exceed the limit of its project or of the user who writes it.
pub async fn check_metadata(catalog: &Catalog, writer: Holder<'_>, metadata: &BTreeMap<String, String>) -> Result<(), ApiError> {
    within(&writer.limits(catalog).await?.lower(), "metadata_items", metadata.len(), "too many metadata items")
}

/// Answers 403 if a rebuild would exceed the limits of a server's contents, of the project or of the user who asks for it.
pub async fn check_rebuild(catalog: &Catalog, writer: Holder<'_>, metadata: usize, files: &[InjectedFile]) -> Result<(), ApiError> {
    contents_within(&writer.limits(catalog).await?.lower(), metadata, files)
}

/// Answers 403 if a server with this many metadata and with these files would exceed the limits.
fn contents_within(limits: &Limits, metadata: usize, files: &[InjectedFile]) -> Result<(), ApiError> {
    within(limits, "metadata_items", metadata, "too many metadata items")?;
    within(limits, "injected_files", files.len(), "too many injected files")?;
    for InjectedFile { path, contents } in files {
        within(limits, "injected_file_path_bytes", path.len(), "the path of an injected file is too long")?;
        within(limits, "injected_file_content_bytes", decoded_len(contents.expose()), "an injected file is too long")?;
    }
    Ok(())
}

/// Answers 400 if what a guest is to read at its first boot does not fit into one message to its host.
pub fn check_first_boot(metadata: &BTreeMap<String, String>, sealed: &Sealed) -> Result<(), ApiError> {
    let size = sealed.as_str().len() + serde_json::to_vec(metadata).map_or(0, |text| text.len());
    if size <= FIRST_BOOT_MAX {
        return Ok(());
    }
    Err(bad_request(format!(
        "The server's metadata, user data and files take {} KiB on their way to a host, sealed and encoded, and may take {} KiB.",
        size.div_ceil(1024),
        FIRST_BOOT_MAX / 1024
    )))
}

/// Answers 403 if the group has no room for `more` members of the caller's. Other users' and deleted members do not count.
pub async fn check_group(catalog: &Catalog, caller: &RequestContext, group: Uuid, more: i64) -> Result<(), ApiError> {
    let members = catalog.api.members_of_user(group, &caller.user_id).await?;
    match fits(&Holder::from(caller).limits(catalog).await?.of_user(), "server_group_members", members, more) {
        true => Ok(()),
        false => Err(forbidden("Quota exceeded, too many servers in group")),
    }
}

fn within(limits: &Limits, resource: &str, amount: usize, otherwise: &str) -> Result<(), ApiError> {
    if fits(limits, resource, 0, amount as i64) {
        return Ok(());
    }
    let limit = limits.get(resource).copied().unwrap_or(-1);
    Err(forbidden(format!("Quota exceeded for {resource}: {otherwise}: {amount}, and {limit} are allowed")))
}

/// Returns the decoded length of base64.
fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_count_that_fits_is_found_in_few_tries() {
        for room in [0, 1, 5, 10, 999, 1000, 2000] {
            let tries = Cell::new(0);
            let count_that_fits = most_that_fit(3, 1000, |count| {
                tries.set(tries.get() + 1);
                count <= room
            });
            assert_eq!(count_that_fits, room.clamp(3, 1000));
            assert!(tries.get() <= 10, "{} tries", tries.get());
        }
    }
}
