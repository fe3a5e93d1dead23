//! The zone and the hardware of a cell's hosts, as a first start of `serve` gives them to simulated hosts: the flavors of the samples ask for
//! these aggregates.

use serde_json::{Value, json};

use crate::client::{Client, ClientError, OPERATORS};

/// Puts hosts into the aggregates of their cell, and makes missing ones. Can be repeated.
pub(super) async fn place(client: &Client, cell: &str, hosts: &[String]) -> Result<(), ClientError> {
    let generation = if cell == "cell1" { "gen1" } else { "gen2" };
    let zone = aggregate(client, cell, Some(cell)).await?;
    let hardware = aggregate(client, generation, None).await?;
    let metadata = json!({"set_metadata": {"metadata": {"generation": generation}}});
    client.post("compute", &format!("{}/action", path_of(&hardware)), metadata).await?;
    for aggregate in [zone, hardware] {
        let members = aggregate["hosts"].as_array().cloned().unwrap_or_default();
        for host in hosts.iter().filter(|host| !members.iter().any(|member| member == *host)) {
            client.post("compute", &format!("{}/action", path_of(&aggregate)), json!({"add_host": {"host": host}})).await?;
        }
    }
    // A host whose provider came after it was added is missing in placement.
    client.post(OPERATORS, "/aggregates/sync", json!({})).await?;
    Ok(())
}

fn path_of(aggregate: &Value) -> String {
    format!("/os-aggregates/{}", aggregate["id"])
}

/// Returns the aggregate of this name; makes it if there is none.
async fn aggregate(client: &Client, name: &str, zone: Option<&str>) -> Result<Value, ClientError> {
    let listed = client.get("compute", "/os-aggregates").await?;
    let present = listed["aggregates"].as_array().into_iter().flatten().find(|aggregate| aggregate["name"] == name).cloned();
    if let Some(present) = present {
        return Ok(present);
    }
    let mut wish = json!({"name": name});
    if let Some(zone) = zone {
        wish["availability_zone"] = json!(zone);
    }
    Ok(client.post("compute", "/os-aggregates", json!({ "aggregate": wish })).await?["aggregate"].clone())
}
