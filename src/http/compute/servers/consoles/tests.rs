//! Tests of tokens and of what is new in a console.

use std::time::Duration;

use uuid::Uuid;

use super::session::newer;
use super::token::ConsoleToken;
use crate::env::Env;

#[test]
fn only_what_is_new_is_shown() {
    let rows = [
        ("", "one\ntwo\n", "one\ntwo\n"),
        ("one\ntwo\n", "one\ntwo\n", ""),
        ("one\ntwo\n", "one\ntwo\nthree\n", "three\n"),
        // The oldest lines have gone.
        ("one\ntwo\n", "two\nthree\n", "three\n"),
        ("one\ntwo\n", "seven\neight\n", "seven\neight\n"),
    ];
    for (seen, now, new) in rows {
        assert_eq!(newer(seen, now), new, "{seen:?} {now:?}");
    }
}

#[test]
fn a_token_is_good_for_its_time_and_its_purpose() {
    let env = Env::system();
    let server = Uuid::from_u128(7);
    let good = ConsoleToken::new(server, &env, Duration::from_secs(60)).seal(&env);
    assert_eq!(ConsoleToken::open(&good, &env).expect("a token").server, server);
    let late = ConsoleToken::new(server, &env, Duration::ZERO).seal(&env);
    let other = env.seal(br#"{"purpose":"guest","server":"00000000-0000-0000-0000-000000000007","until":"2999-01-01T00:00:00Z"}"#);
    for bad in ["", "nonsense", &late, &other, &ConsoleToken::new(server, &Env::system(), Duration::from_secs(60)).seal(&Env::system())] {
        assert!(ConsoleToken::open(bad, &env).is_none(), "{bad}");
    }
}
