//! Quotas that operators have set: for everybody (the class `default`), for a project, or for a user in a project.

use diesel::prelude::*;

use super::ApiDb;
use crate::db::{Conn, DbError};
use crate::domain::quota::{DEFAULT_CLASS, Limits, QuotaLimits};

diesel::table! {
    quotas (project_id, user_id, resource) {
        project_id -> Text,
        user_id -> Text,
        resource -> Text,
        hard_limit -> BigInt,
    }
}

diesel::table! {
    quota_classes (class_name, resource) {
        class_name -> Text,
        resource -> Text,
        hard_limit -> BigInt,
    }
}

impl ApiDb {
    /// Returns the limits of a project, and those of a user in it. The project's limit wins over the class `default`, then `defaults`.
    pub async fn quota_limits(&self, defaults: &Limits, project_id: &str, user_id: Option<&str>) -> Result<QuotaLimits, DbError> {
        let (mut limits, project, user) = (defaults.clone(), project_id.to_owned(), user_id.map(str::to_owned));
        self.db
            .read(move |conn| {
                limits.extend(class(conn, DEFAULT_CLASS)?);
                limits.extend(of(conn, &project, "")?);
                let own = user.map(|user| of(conn, &project, &user)).transpose()?;
                Ok(QuotaLimits { project: limits, own: own.into_iter().flatten().collect() })
            })
            .await
    }

    /// Returns the limits that are set for users of a project: user, resource and limit of each.
    pub async fn quotas_of_users(&self, project_id: &str) -> Result<Vec<(String, String, i64)>, DbError> {
        let project = project_id.to_owned();
        self.db
            .read(move |conn| {
                let rows = quotas::table.filter(quotas::project_id.eq(project)).filter(quotas::user_id.ne(""));
                Ok(rows.select((quotas::user_id, quotas::resource, quotas::hard_limit)).load(conn)?)
            })
            .await
    }

    /// Sets some limits of a project, or of one of its users.
    pub async fn set_quotas(&self, project_id: &str, user_id: Option<&str>, limits: Limits) -> Result<(), DbError> {
        let (project, user) = (project_id.to_owned(), user_id.unwrap_or_default().to_owned());
        self.db
            .write(move |conn| {
                for (resource, limit) in limits {
                    diesel::delete(quotas::table.find((&project, &user, &resource))).execute(conn)?;
                    let key = (quotas::project_id.eq(&project), quotas::user_id.eq(&user));
                    diesel::insert_into(quotas::table)
                        .values((key, quotas::resource.eq(resource), quotas::hard_limit.eq(limit)))
                        .execute(conn)?;
                }
                Ok(())
            })
            .await
    }

    /// Deletes the limits of a project and all its users, or of one user in it.
    pub async fn delete_quotas(&self, project_id: &str, user_id: Option<&str>) -> Result<(), DbError> {
        let (project, user) = (project_id.to_owned(), user_id.map(str::to_owned));
        self.db
            .write(move |conn| {
                let rows = quotas::table.filter(quotas::project_id.eq(project));
                match user {
                    Some(user) => diesel::delete(rows.filter(quotas::user_id.eq(user))).execute(conn)?,
                    None => diesel::delete(rows).execute(conn)?,
                };
                Ok(())
            })
            .await
    }

    /// Returns the limits of a class, with `defaults` for those it does not set.
    pub async fn quota_class(&self, defaults: &Limits, name: &str) -> Result<Limits, DbError> {
        let (mut limits, name) = (defaults.clone(), name.to_owned());
        self.db
            .read(move |conn| {
                limits.extend(class(conn, &name)?);
                Ok(limits)
            })
            .await
    }

    /// Sets some limits of a class.
    pub async fn set_quota_class(&self, name: &str, limits: Limits) -> Result<(), DbError> {
        let name = name.to_owned();
        self.db
            .write(move |conn| {
                for (resource, limit) in limits {
                    diesel::delete(quota_classes::table.find((&name, &resource))).execute(conn)?;
                    let row =
                        (quota_classes::class_name.eq(&name), quota_classes::resource.eq(resource), quota_classes::hard_limit.eq(limit));
                    diesel::insert_into(quota_classes::table).values(row).execute(conn)?;
                }
                Ok(())
            })
            .await
    }
}

fn class(conn: &mut Conn, name: &str) -> Result<Vec<(String, i64)>, DbError> {
    let rows = quota_classes::table.filter(quota_classes::class_name.eq(name));
    Ok(rows.select((quota_classes::resource, quota_classes::hard_limit)).load(conn)?)
}

fn of(conn: &mut Conn, project: &str, user: &str) -> Result<Vec<(String, i64)>, DbError> {
    let rows = quotas::table.filter(quotas::project_id.eq(project)).filter(quotas::user_id.eq(user));
    Ok(rows.select((quotas::resource, quotas::hard_limit)).load(conn)?)
}
