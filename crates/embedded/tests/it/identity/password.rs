//! Tests of the hashes of passwords: their cost, and that old ones are replaced.

use cellshift_embedded::ServiceError;
use cellshift_embedded::identity::password::{Cost, Fit, Passwords, fits, hash, is_outdated, placeholder};
use cellshift_env::Env;

const OLDER: Cost = Cost { memory_kib: 4096, passes: 1 };

fn passwords(at_once: usize) -> Passwords {
    Passwords::new(&Env::system(), Cost::CHEAP, at_once).unwrap()
}

#[tokio::test]
async fn a_hash_costs_what_owasp_asks_for_at_least() {
    let passwords = Passwords::new(&Env::system(), Cost::default(), 1).unwrap();
    for hash in [passwords.hash("secret").await.unwrap(), placeholder(Cost::default()).unwrap()] {
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(!is_outdated(&hash, Cost::OWASP));
    }
}

#[tokio::test]
async fn an_older_hash_fits_and_is_replaced_by_one_that_fits() {
    let passwords = passwords(1);
    let turn = passwords.turn().await.unwrap();
    let older = hash("secret", &[7; 16], OLDER).unwrap();
    assert!(is_outdated(&older, Cost::OWASP) && !is_outdated(&older, OLDER));
    assert!(matches!(passwords.compare(&turn, "secret", Some(older)).await.unwrap(), Fit::Yes(None)), "it costs more than today's");
    let cheaper = hash("secret", &[7; 16], Cost { memory_kib: 32, passes: 1 }).unwrap();
    assert!(matches!(passwords.compare(&turn, "wrong", Some(cheaper.clone())).await.unwrap(), Fit::No));
    let Fit::Yes(Some(newer)) = passwords.compare(&turn, "secret", Some(cheaper)).await.unwrap() else { panic!("it is outdated") };
    assert!(fits("secret", &newer) && !fits("wrong", &newer) && !is_outdated(&newer, Cost::CHEAP));
}

#[tokio::test]
async fn nobody_has_a_password_and_is_compared_at_full_cost() {
    let passwords = passwords(1);
    let turn = passwords.turn().await.unwrap();
    for password in ["", "secret"] {
        assert!(matches!(passwords.compare(&turn, password, None).await.unwrap(), Fit::No));
        assert!(!fits(password, &placeholder(Cost::CHEAP).unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_turn_the_service_is_unavailable() {
    let passwords = passwords(1);
    let _held = passwords.turn().await.unwrap();
    assert!(matches!(passwords.hash("secret").await, Err(ServiceError::Unavailable { .. })));
}
