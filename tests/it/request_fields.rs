//! The fate of each field of each request with a body that a schema, a type or a table describes: `bodies/request_fields.table` has a row for each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cellshift::http::request_schemas;
use regex::Regex;
use serde_json::{Value, json};

use crate::access::row::{self, Body, Row};
use crate::client::id_of;
use crate::named_tests;
use crate::stage::play_default;

const TABLE: &str = "tests/it/bodies/request_fields.table";

/// The fates of a field: the field decides what is done, or is kept and shown; another value than the usual one is refused; or the field has no
/// effect, as in Nova.
const FATES: [&str; 4] = ["done", "shown", "refused", "ignored"];

/// The APIs whose bodies types and tables describe, and where their paths begin.
const APIS: [(&str, &str); 4] = [("identity", "/identity/v3"), ("image", "/image"), ("network", "/network/v2.0"), ("volume", "/volume/v3")];

/// A row of the table, after its field.
struct FieldRow {
    fate: String,
    note: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the rows by request and field. A line in brackets names the request of the lines below it.
fn table() -> BTreeMap<String, BTreeMap<String, FieldRow>> {
    let text = std::fs::read_to_string(root().join(TABLE)).expect("the table");
    let mut requests: BTreeMap<String, BTreeMap<String, FieldRow>> = BTreeMap::new();
    let mut request = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut request);
            assert!(requests.insert(request.clone(), BTreeMap::new()).is_none(), "{request} is there twice");
            continue;
        }
        let parts: Vec<&str> = line.splitn(3, '|').map(str::trim).collect();
        let [field, fate, note] = parts[..] else { panic!("{line}: it is no row of a field, what becomes of it, and a note") };
        let row = FieldRow { fate: fate.to_owned(), note: note.to_owned() };
        let of_request = requests.get_mut(&request).expect("a request in brackets comes first");
        assert!(of_request.insert(field.to_owned(), row).is_none(), "{request}: {field} is there twice");
    }
    requests
}

#[test]
fn every_field_of_every_request_has_a_row() {
    let table = table();
    let mut wrong = Vec::new();
    let mut described = BTreeSet::new();
    for (request, fields) in request_schemas::fields() {
        let empty = BTreeMap::new();
        let rows = table.get(&request).unwrap_or(&empty);
        let missing: Vec<String> = fields.iter().filter(|field| !rows.contains_key(*field)).map(|field| format!("{field} | ? |")).collect();
        if !missing.is_empty() || !table.contains_key(&request) {
            wrong.push(format!("[{request}]\n{}", missing.join("\n")));
        }
        wrong.extend(rows.keys().filter(|field| !fields.contains(*field)).map(|field| format!("{request} has no field {field}")));
        assert!(described.insert(request.clone()), "{request} is described twice");
    }
    wrong.extend(table.keys().filter(|request| !described.contains(*request)).map(|request| format!("nothing describes {request}")));
    assert!(wrong.is_empty(), "{TABLE} and the requests differ:\n{}", wrong.join("\n"));
}

/// Returns the request of a row of the access matrix as the table names it; none of an API whose bodies schemas check.
fn request_of(row: &Row) -> Option<String> {
    let (method, path) = row.route();
    let (api, path) = APIS.iter().find_map(|(api, prefix)| Some((api, path.strip_prefix(prefix)?.to_owned())))?;
    let action = row.action().map(|name| format!("#{name}")).unwrap_or_default();
    Some(format!("{api} {method} {path}{action}"))
}

#[test]
fn each_request_with_a_body_has_its_fields_listed() {
    let described: BTreeSet<String> = request_schemas::fields().into_iter().map(|(request, _)| request).collect();
    let with_body = row::rows().into_iter().filter(|row| matches!(row.body, Body::Json(_)));
    let missing: BTreeSet<String> = with_body.filter_map(|row| request_of(&row)).filter(|request| !described.contains(request)).collect();
    assert_eq!(missing, BTreeSet::new());
}

/// A field without an effect has a reason, and a test that is named is there.
#[test]
fn the_rows_say_what_becomes_of_a_field() {
    let named = Regex::new("`([a-z0-9_]+(?:::[a-z0-9_]+)+)`").expect("a pattern");
    let mut wrong = Vec::new();
    for (request, rows) in table() {
        for (field, FieldRow { fate, note }) in rows {
            if !FATES.contains(&fate.as_str()) {
                wrong.push(format!("{request} {field}: {fate} is none of {}", FATES.join(", ")));
            }
            if ["refused", "ignored"].contains(&fate.as_str()) && note.is_empty() {
                wrong.push(format!("{request} {field}: why is it {fate}?"));
            }
            wrong.extend(named.captures_iter(&note).filter_map(|name| named_tests::objection(&name[1])));
        }
    }
    assert!(wrong.is_empty(), "{TABLE}:\n{}", wrong.join("\n"));
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// A schema, or a body with its schema, that is not in the list would have no rows.
#[test]
fn every_schema_of_a_request_is_listed() {
    let declared = Regex::new(r"(?m)^(?:pub(?:\([a-z_: ]+\))? )?static ([A-Z_]+): (?:Schema\b|Body<)").expect("a pattern");
    let mut files = Vec::new();
    for folder in ["src/http", "crates/embedded/src"] {
        sources(&root().join(folder), &mut files);
    }
    let mut names = Vec::new();
    for file in files.iter().filter(|file| !file.to_string_lossy().contains("tests")) {
        let text = std::fs::read_to_string(file).expect("a file");
        names.extend(declared.captures_iter(&text).map(|name| format!("{}: {}", file.display(), &name[1])));
    }
    // IMAGE_DEVICES describes a property of images.
    names.retain(|name| !name.ends_with(": IMAGE_DEVICES"));
    assert_eq!(names.len(), request_schemas::all().len(), "{names:#?}");
}

/// The bus, the type and the format of a disk go with the server, and with the servers that are made of its image.
#[test]
fn the_form_of_a_disk_is_kept() {
    play_default(|stage| async move {
        let device = |source: &str, id: &str| {
            json!({"source_type": source, "destination_type": "volume", "uuid": id, "volume_size": 1, "delete_on_termination": true,
                "disk_bus": "scsi", "device_type": "disk", "guest_format": "ext4"})
        };
        let mut root = device("image", &stage.image.to_string());
        root["boot_index"] = json!(0);
        let new = stage.volume_server().with("block_device_mapping_v2", json!([root]));
        let server = stage.create(new).await;
        let forms = |cell: &'static str| {
            let stage = stage.clone();
            async move {
                let devices = stage.cell(cell).block_devices(server).await.expect("devices");
                let form = |text: &Option<String>| text.clone().unwrap_or_default();
                devices.iter().map(|one| [form(&one.disk_bus), form(&one.device_type), form(&one.guest_format)]).collect::<Vec<_>>()
            }
        };
        let form = [["scsi", "disk", "ext4"].map(str::to_owned)];
        assert_eq!(forms("cell1").await, form);
        stage.cross(server).await;
        stage.confirm(server).await;
        assert_eq!(forms("cell2").await, form);
        let made = stage.member.act(server, json!({"createImage": {"name": "kept"}})).await.expect(202).body;
        let image = made["image_id"].as_str().expect("an id").to_owned();
        stage.ended(server).await;
        let shown = stage.member.get(&format!("/image/v2/images/{image}")).await.expect(200).body;
        let mapped: Value = serde_json::from_str(shown["block_device_mapping"].as_str().expect("a mapping")).expect("JSON");
        assert_eq!((&mapped[0]["disk_bus"], &mapped[0]["device_type"]), (&json!("scsi"), &json!("disk")));
        let again = stage.server().with("imageRef", json!(image)).ask(&stage.member).await.expect(202).body;
        let again = id_of(&again["server"]);
        stage.at_rest(again, "ACTIVE").await;
        let cell = if stage.record("cell1", again).await.is_some() { "cell1" } else { "cell2" };
        let devices = stage.cell(cell).block_devices(again).await.expect("devices");
        assert_eq!(devices[0].disk_bus.as_deref(), Some("scsi"));
    });
}

#[test]
fn the_old_form_of_a_device_has_its_own_fields() {
    play_default(|stage| async move {
        let volume = stage.member.make_volume().await;
        let mut device = json!({"device_name": "vdb", "volume_id": volume, "delete_on_termination": true});
        let server = stage.create(stage.server().with("block_device_mapping", json!([device]))).await;
        assert_eq!(stage.attachments(server).await.into_keys().collect::<Vec<_>>(), [volume]);
        for (field, value) in [("boot_index", json!(0)), ("disk_bus", json!("scsi")), ("source_type", json!("volume"))] {
            device[field] = value;
            let refused = stage.server().with("block_device_mapping", json!([device])).ask(&stage.member).await.expect(400);
            assert!(refused.message().contains(field), "{}", refused.text);
            device.as_object_mut().expect("an object").remove(field);
        }
    });
}
