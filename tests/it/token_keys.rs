//! `cellshift token rotate` as operators run it, beside a running service.

use crate::client::PATIENCE;
use crate::service::{self, Service};

const SERVERS: &str = "/servers";

#[test]
fn a_running_service_notices_rotated_and_forgotten_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path();
    let rotate = ["token", "rotate", "--data-dir", data.to_str().expect("a path")];
    let missing = service::run(&rotate);
    assert_eq!(missing.code, Some(1), "{}", missing.stdout);
    assert!(missing.stderr.contains("start the service once"), "{}", missing.stderr);

    let service = Service::start(data, &[]);
    actix_rt::System::new().block_on(async {
        let before = service.user(data, "cellshift").await;
        for _ in 0..2 {
            let rotated = service::run(&rotate);
            assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
            before.get(SERVERS).await.expect(200);
            service.user(data, "cellshift").await.get(SERVERS).await.expect(200);
        }
        let rotated = service::run(&[&rotate[..], &["--forget-old"]].concat());
        assert!(rotated.stdout.contains("every token has ended"), "{}", rotated.stdout);
        let ended = async { while before.get(SERVERS).await.status != 401 {} };
        tokio::time::timeout(PATIENCE, ended).await.expect("the token ends without a restart");
        service.user(data, "cellshift").await.get(SERVERS).await.expect(200);
    });
    service.stop();
}
