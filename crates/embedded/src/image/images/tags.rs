//! An image's tags, added and removed singly.

use actix_web::{HttpResponse, web};
use cellshift_domain::reason;
use cellshift_web::error::ApiError;

use crate::ServiceError;
use crate::image::Image;
use crate::image::routes::{Call, failed, image_id};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/v2/images/{id}/tags/{tag}").route(web::put().to(add)).route(web::delete().to(remove)));
}

async fn add(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, tag) = path.into_inner();
    let change = move |image: &mut Image| {
        if !image.tags.contains(&tag) {
            image.tags.push(tag);
        }
        Ok(())
    };
    call.service.update(&call.caller.0, image_id(&id)?, change).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn remove(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, tag) = path.into_inner();
    let change = move |image: &mut Image| match image.tags.iter().position(|other| *other == tag) {
        Some(at) => {
            image.tags.remove(at);
            Ok(())
        }
        None => Err(ServiceError::NotFound(reason!("The image has no tag {tag}."))),
    };
    call.service.update(&call.caller.0, image_id(&id)?, change).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}
