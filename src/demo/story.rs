//! The three parts of the story.

use serde_json::json;
use tokio::time::Instant;

use super::evidence::Evidence;
use super::server::{Server, Sight, flavor_id};
use super::stage::{LOOK_EVERY, PATIENCE, Stage, items, text};
use super::{DemoError, expect, journal};
use crate::saga::migration_view::MigrationView;

const OLD: &str = "gen1.small";
const NEW: &str = "gen2.small";
/// The step at which the third server's target loses its power: the source guest is off and released, and no guest runs.
const FATAL_STEP: &str = "prepare_at_target";

/// A server before its move.
struct Before {
    server: Server,
    sight: Sight,
    cell: String,
    evidence: Evidence,
}

/// Part one: the server moves, keeps everything, and its owner confirms.
pub async fn moved_and_confirmed(stage: &Stage) -> Result<(), DemoError> {
    stage.narrator.heading("1  Moved to new hardware, and confirmed");
    stage.narrator.say("A server with a port and a volume starts its life on the old hardware.");
    let before = begin(stage, "ada", "I was written on the old hardware. Please take me along.").await?;
    let moved = resize(stage, &before).await?;
    stage.narrator.say("Its owner tries it, and is content. Only now the old host may forget it.");
    stage.narrator.command(&format!("openstack server resize confirm {}", before.server.name));
    before.server.act(stage, json!({"confirmResize": null})).await?;
    let after = before.server.until(stage, "ACTIVE", &["VERIFY_RESIZE"]).await?;
    ended(stage, &before.server, "confirm", "done").await?;
    expect("the host", &*after.host, &*moved.host)?;
    expect("the flavor", &*after.flavor, NEW)?;
    before.server.check_gone_from(stage, &before.sight.host).await?;
    stage.narrator.good(&format!("{} lives on {}; nothing of it is left on {}", before.server.name, after.host, before.sight.host));
    unharmed(stage, &before, &after).await
}

/// Part two: the server moves, and its owner reverts.
pub async fn moved_and_reverted(stage: &Stage) -> Result<(), DemoError> {
    stage.narrator.heading("2  Moved, and taken back");
    stage.narrator.say("Another server moves in the same way.");
    let before = begin(stage, "grace", "If the new place is no good, I want to be found at the old one.").await?;
    let moved = resize(stage, &before).await?;
    stage.narrator.say("This time the owner is not content. Until the confirmation, the way back is open.");
    stage.narrator.command(&format!("openstack server resize revert {}", before.server.name));
    before.server.act(stage, json!({"revertResize": null})).await?;
    let after = before.server.until(stage, "ACTIVE", &["VERIFY_RESIZE", "REVERT_RESIZE"]).await?;
    ended(stage, &before.server, "revert", "done").await?;
    back_home(stage, &before, &after, &moved.host).await?;
    unharmed(stage, &before, &after).await
}

/// Part three: the target dies during the move.
pub async fn target_killed(stage: &Stage) -> Result<(), DemoError> {
    stage.narrator.heading("3  The target host dies in the middle of the move");
    stage.narrator.say(
        "A third server leaves. When its guest is off at the source and about to be built at the target, the power of the target \
         host is cut. Nobody will repair anything by hand.",
    );
    let before = begin(stage, "edsger", "Whatever happens on the way, I shall not be lost.").await?;
    let target = resize_into_disaster(stage, &before).await?;
    let after = before.server.until(stage, "ACTIVE", &["RESIZE"]).await?;
    let view = ended(stage, &before.server, "resize", "unwound").await?;
    stage.narrator.good(&format!("{} is back while {target} is still dead", before.server.name));
    unharmed(stage, &before, &after).await?;
    power_on(stage, &target, &view).await?;
    back_home(stage, &before, &after, &target).await
}

async fn begin(stage: &Stage, name: &str, letter: &str) -> Result<Before, DemoError> {
    let server = Server::create(stage, name, OLD).await?;
    let sight = server.look(stage).await?;
    let cell = stage.cell_of(&sight.host).await?;
    server.write(stage, &sight.host, letter).await?;
    let evidence = Evidence::take(stage, &server).await?;
    evidence.show(stage);
    Ok(Before { server, sight, cell, evidence })
}

async fn resize(stage: &Stage, before: &Before) -> Result<Sight, DemoError> {
    let Before { server, sight, .. } = before;
    stage.narrator.line("");
    stage.narrator.command(&format!("openstack server resize --flavor {NEW} {} --wait", server.name));
    server.act(stage, json!({"resize": {"flavorRef": flavor_id(stage, NEW).await?}})).await?;
    let moved = server.until(stage, "VERIFY_RESIZE", &["RESIZE", "ACTIVE"]).await?;
    ended(stage, server, "resize", "done").await?;
    expect("the flavor", &*moved.flavor, NEW)?;
    if stage.cell_of(&moved.host).await? == before.cell {
        return Err(DemoError::Wrong(format!("server {} has not left {}", server.name, before.cell)));
    }
    stage.narrator.good(&format!("{} went from {} to {}, into another cell", server.name, sight.host, moved.host));
    unharmed(stage, before, &moved).await?;
    Ok(moved)
}

/// Cuts the target's power at the fatal step, and returns the target.
async fn resize_into_disaster(stage: &Stage, before: &Before) -> Result<String, DemoError> {
    let server = &before.server;
    let tripwire = stage.cloud.arm(server.id, FATAL_STEP);
    stage.narrator.line("");
    stage.narrator.command(&format!("openstack server resize --flavor {NEW} {}", server.name));
    server.act(stage, json!({"resize": {"flavorRef": flavor_id(stage, NEW).await?}})).await?;
    let too_long = |_| DemoError::TooLong { what: format!("the move has come to {FATAL_STEP}"), patience: PATIENCE };
    tokio::time::timeout(PATIENCE, tripwire.reached(stage)).await.map_err(too_long)??;
    let migrations = stage.admin.get("compute", &format!("/os-migrations?instance_uuid={}", server.id)).await?;
    let target = items(&migrations["migrations"]).iter().map(|migration| text(migration, "dest_compute")).find(|host| !host.is_empty());
    let target = target.ok_or_else(|| DemoError::Wrong("the migration names no destination".into()))?.to_owned();
    stage.cloud.power_off(&stage.cell_of(&target).await?, &target).await?;
    stage.narrator.fact("⚡", &format!("{target} loses its power during {FATAL_STEP}"));
    Ok(target)
}

/// Gives the host its power back, and waits until no debt is left.
async fn power_on(stage: &Stage, host: &str, view: &MigrationView) -> Result<(), DemoError> {
    let owed = view.debts.len();
    stage.narrator.say(&format!(
        "What the dead host may still hold could not be cleaned up; the journal keeps {owed} such debts. Now its power comes back, \
         and they are paid without being asked for."
    ));
    stage.cloud.power_on(&stage.cell_of(host).await?, host).await?;
    stage.narrator.fact("⚡", &format!("{host} has power again"));
    let began = Instant::now();
    loop {
        let left = journal::by_id(stage, &view.uuid.to_string()).await?.debts.len();
        if left == 0 && stage.is_up(host).await? {
            break;
        }
        if began.elapsed() > PATIENCE {
            return Err(DemoError::TooLong { what: format!("what {host} owes is paid"), patience: PATIENCE });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    stage.narrator.good(&format!("all debts are paid after {:.1} s", began.elapsed().as_secs_f32()));
    Ok(())
}

/// Prints the server's newest saga, and checks its kind and final state.
async fn ended(stage: &Stage, server: &Server, saga: &str, state: &str) -> Result<MigrationView, DemoError> {
    let view = journal::newest(stage, server).await?;
    expect("the newest operation", &*view.saga, saga)?;
    journal::show(stage, &view);
    expect(&format!("the state of the {saga}"), &*view.state, state)?;
    Ok(view)
}

/// Checks that the server is as before, and that the target has nothing of it.
async fn back_home(stage: &Stage, before: &Before, after: &Sight, target: &str) -> Result<(), DemoError> {
    expect("the host", &*after.host, &*before.sight.host)?;
    expect("the flavor", &*after.flavor, &*before.sight.flavor)?;
    before.server.check_gone_from(stage, target).await?;
    stage.narrator.good(&format!("{} is on {} as before; nothing of it is left on {target}", before.server.name, after.host));
    Ok(())
}

/// Checks that addresses, port, volume and all bytes are as before.
async fn unharmed(stage: &Stage, before: &Before, after: &Sight) -> Result<(), DemoError> {
    let (old, new) = (before.sight.addresses.join(", "), after.addresses.join(", "));
    expect("the address", &*new, &*old)?;
    before.server.check_belongings(stage, &after.host).await?;
    let now = before.evidence.again(stage, &before.server).await?;
    now.show(stage);
    for (disk, was, is) in [("root disk", &before.evidence.root, &now.root), ("volume", &before.evidence.volume, &now.volume)] {
        expect(&format!("the size of the {disk}"), is.bytes, was.bytes)?;
        expect(&format!("the checksum of the {disk}"), &is.checksum, &was.checksum)?;
    }
    stage.narrator.good(&format!("same address {new}, same bytes on the root disk and on the volume"));
    Ok(())
}
