//! A backup of a stopped service is restored as docs/operating/data.md says: the cloud is that of the backup's moment.

use super::site::Site;

#[test]
fn a_restored_backup_is_the_cloud_of_its_moment() {
    let site = Site::new();
    let made = site.fill();
    let backup = site.back_up();
    let later = site.fill();
    site.everything_is_there(&later, &site.options());

    site.restore(&backup);
    site.everything_is_there(&made, &site.options());
    let service = site.start();
    actix_rt::System::new().block_on(async {
        let user = service.user(&site.data, "cellshift").await;
        user.get(&format!("/servers/{}", later.server)).await.expect(404);
        user.get(&format!("/volume/v3/volumes/{}", later.volume)).await.expect(404);
    });
    service.stop();
}

#[test]
fn the_audit_names_what_an_older_database_lacks() {
    let site = Site::new();
    site.fill();
    let backup = site.back_up();
    let later = site.fill();
    site.restore_data_alone(&backup);
    let ended = site.run(&["audit"], &site.options());
    assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains(&later.server.to_string()), "{}", ended.stdout);
}
