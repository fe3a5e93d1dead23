//! Bodies of another media type than their route takes.

use std::collections::BTreeMap;

use super::answers::objection;
use super::house::{Filled, visit};
use super::row::{Body, CALLERS, Row, rows};
use super::stored::differences;

#[test]
fn a_body_of_another_media_type_is_refused_by_each_route() {
    visit(|house| async move {
        let (mut stored, mut wrong, mut requests) = (house.stored(), Vec::new(), Vec::new());
        // Makes what the requests name before anything is compared.
        for row in rows() {
            let Some(caller) = CALLERS.iter().find(|caller| row.status_for(caller) < 300) else { continue };
            let filled = house.fill(&row, false, &mut BTreeMap::new()).await;
            requests.push((row, *caller, filled));
        }
        house.rest().await;
        let before = stored.contents();
        for (row, caller, filled) in requests {
            let text = match &filled.body {
                Body::None => continue,
                Body::Json(body) => body.to_string(),
                Body::Raw(_, text) => text.clone(),
            };
            for kind in ["application/xml", "text/plain", "application/x-www-form-urlencoded"] {
                let body = Body::Raw(kind.to_owned(), text.clone());
                let answer = house.ask(caller, &row, &Filled { path: filled.path.clone(), body, about: filled.about.clone() }).await;
                wrong.extend(complaint(&row, answer.status, &answer.text).map(|why| format!("{kind}: {why}")));
            }
        }
        let changed = differences(&before, &stored.contents());
        assert!(wrong.is_empty() && changed.is_empty(), "{} are wrong:\n{}\n{}", wrong.len(), wrong.join("\n"), changed.join("\n"));
    });
}

fn complaint(row: &Row, status: u16, text: &str) -> Option<String> {
    let why = match status {
        415 => objection(&row.path, status, text)?,
        _ => format!("it is not 415: {text:.300}"),
    };
    let action = row.action().map(|action| format!(" {action}")).unwrap_or_default();
    Some(format!("{} {}{action}: {status}, {why}", row.method, row.path))
}
