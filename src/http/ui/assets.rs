//! The page's files, which the program carries.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use actix_web::http::StatusCode;
use actix_web::http::header::{ETAG, IF_NONE_MATCH};
use actix_web::{HttpRequest, HttpResponse, web};
use sha2::{Digest, Sha256};

use crate::http::error::{ApiError, ErrorForm};

const SHELL: &str = "index.html";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file as it is served.
struct Asset {
    kind: &'static str,
    text: &'static str,
    /// Changes with the text.
    tag: String,
}

macro_rules! files {
    ($($kind:ident $name:literal),* $(,)?) => {
        &[$(($name, $kind, include_str!(concat!("../../../ui/", $name)))),*]
    };
}

/// Each file with its media type and its text.
const FILES: &[(&str, &str, &str)] = files![
    HTML "index.html",
    CSS "style.css",
    SVG "icon.svg",
    SCRIPT "app.js",
    SCRIPT "api.js",
    SCRIPT "dom.js",
    SCRIPT "live.js",
    SCRIPT "login.js",
    SCRIPT "overview.js",
    SCRIPT "tiles.js",
    SCRIPT "cloudmap.js",
    SCRIPT "inflight.js",
    SCRIPT "history.js",
    SCRIPT "heatmap.js",
    SCRIPT "cells.js",
    SCRIPT "host.js",
    SCRIPT "drains.js",
    SCRIPT "newdrain.js",
    SCRIPT "drainform.js",
    SCRIPT "drainplan.js",
    SCRIPT "capacity.js",
    SCRIPT "waiting.js",
    SCRIPT "groups.js",
    SCRIPT "healing.js",
    SCRIPT "moves.js",
    SCRIPT "move.js",
    SCRIPT "timeline.js",
    SCRIPT "story.js",
    SCRIPT "faults.js",
    SCRIPT "servers.js",
    SCRIPT "sorted.js",
    SCRIPT "server.js",
    SCRIPT "actions.js",
    SCRIPT "address.js",
    SCRIPT "attachments.js",
    SCRIPT "console.js",
    SCRIPT "create.js",
    SCRIPT "destinations.js",
    SCRIPT "holdings.js",
    SCRIPT "names.js",
    SCRIPT "operations.js",
    SCRIPT "search.js",
    SCRIPT "audit.js",
    SCRIPT "chaos.js",
    SCRIPT "actors.js",
    SCRIPT "verdict.js",
    SCRIPT "notifications.js",
];

static ASSETS: LazyLock<BTreeMap<&'static str, Asset>> = LazyLock::new(|| {
    let tag = |text: &str| format!("\"{}\"", hex::encode(&Sha256::digest(text)[..12]));
    FILES.iter().map(|(name, kind, text)| (*name, Asset { kind, text, tag: tag(text) })).collect()
});

/// Answers `GET /ui/`.
pub async fn shell(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    answer(&request, SHELL)
}

/// Answers `GET /ui/{file}`.
pub async fn file(request: HttpRequest, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    answer(&request, &name)
}

/// Browsers ask each time whether they have the file still, so that a new release is seen at once.
fn answer(request: &HttpRequest, name: &str) -> Result<HttpResponse, ApiError> {
    let missing = || ApiError::new(ErrorForm::Compute, StatusCode::NOT_FOUND, "The page has no such file.");
    let asset = ASSETS.get(name).ok_or_else(missing)?;
    let tags = request.headers().get_all(IF_NONE_MATCH).filter_map(|tags| tags.to_str().ok());
    let is_present = tags.flat_map(|tags| tags.split(',')).any(|tag| tag.trim().trim_start_matches("W/") == asset.tag);
    let mut response = if is_present { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response.insert_header((ETAG, asset.tag.as_str()));
    match is_present {
        true => Ok(response.finish()),
        false => Ok(response.content_type(asset.kind).body(asset.text)),
    }
}
