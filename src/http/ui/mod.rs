//! The operators' page, `/ui/`: its files, and a session in a cookie.
//!
//! The page has no data of its own: its scripts ask the public routes below `/ui/api`, where `door` puts the session's token into each
//! request. So the page can do what its user's token can do, by the same rules.

mod assets;
mod door;
mod origin;
mod session;

use actix_web::http::Method;
use actix_web::http::header::LOCATION;
use actix_web::{HttpResponse, web};

pub use door::{enter, refuse};

/// The folder of the page.
const FOLDER: &str = "/ui";

/// Registers the page. It needs [`super::ops::Operators`], [`super::compute::catalog::Catalog`] and [`Sessions`](crate::services::identity::Sessions)
/// as `web::Data`.
pub fn configure(config: &mut web::ServiceConfig) {
    config.service(web::resource(["/", FOLDER]).route(web::get().to(to_folder))).service(
        web::scope(FOLDER)
            .service(web::resource("/").route(web::get().to(assets::shell)))
            .service(web::resource("/session").route(web::get().to(session::show)))
            .service(web::resource("/login").route(web::post().to(session::log_in)))
            .service(web::resource("/logout").route(web::post().to(session::log_out)))
            .service(web::resource("/{file}").route(web::get().to(assets::file))),
    );
}

/// Redirects to the page: from `/`, where a browser begins, too. Relatively, so that a proxy may serve the page below another folder.
async fn to_folder() -> HttpResponse {
    HttpResponse::TemporaryRedirect().insert_header((LOCATION, "ui/")).finish()
}

/// True for the requests of the page that need no token: its files, and the login.
pub fn is_open(method: &Method, path: &str) -> bool {
    let Some(rest) = path.strip_prefix(FOLDER) else { return false };
    let is_below = rest.is_empty() || rest.starts_with('/');
    match *method {
        Method::POST => rest == "/login",
        _ => is_below && rest != "/session" && rest != "/logout",
    }
}
