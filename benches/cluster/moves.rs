//! A cross-cell resize and its confirm, alone: in a service with hosts in its process, and in a cluster, in turns.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use crate::Scale;
use crate::clouds::Cloud;
use crate::sample::Times;
use crate::stage::ms;

/// The first moves of each cloud are not measured.
const WARM_UP: usize = 2;

const HEAD: &str = "| what | in one process: median | p99 | agents over NATS: median | p99 | added to the median | share of it |\n\
    |---|---:|---:|---:|---:|---:|---:|";

/// The times of the two clouds.
type Both = [Times; 2];

/// Measures both clouds. Returns the table.
pub async fn measure(scale: &Scale) -> String {
    let clouds = [Cloud::service().await, Cloud::cluster().await];
    let (mut resizes, mut confirms) = (Both::default(), Both::default());
    for round in 0..scale.moves + WARM_UP {
        // In turns, so that a slow minute of the machine meets both.
        for turn in 0..clouds.len() {
            let which = (round + turn) % clouds.len();
            let (resize, confirm) = one_move(&clouds[which]).await;
            if round >= WARM_UP {
                resizes[which].push(resize);
                confirms[which].push(confirm);
            }
        }
    }
    for cloud in clouds {
        cloud.stop().await;
    }
    let mut text = format!("{HEAD}\n");
    line(&mut text, "cross-cell resize to VERIFY_RESIZE", &resizes);
    line(&mut text, "confirm", &confirms);
    let _ = writeln!(text, "\n{} moves in each", resizes[0].len());
    text
}

/// Returns the times of a resize and its confirm.
async fn one_move(cloud: &Cloud) -> (Duration, Duration) {
    let server = cloud.create().await;
    let request = json!({"resize": {"flavorRef": "gen2.small"}});
    let resize = cloud.act(server, request, "instance.resize_finish.end", "VERIFY_RESIZE").await;
    let confirm = cloud.act(server, json!({"confirmResize": null}), "instance.resize_confirm.end", "ACTIVE").await;
    cloud.delete(server).await;
    (resize, confirm)
}

fn line(text: &mut String, what: &str, [here, away]: &Both) {
    let added = ms(away.median()) - ms(here.median());
    let _ = writeln!(
        text,
        "| {what} | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} ms | {added:+.1} ms | {:+.0} % |",
        ms(here.median()),
        ms(here.p99()),
        ms(away.median()),
        ms(away.p99()),
        added / ms(here.median()) * 100.0
    );
}
