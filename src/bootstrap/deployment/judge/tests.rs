//! Tests of all combinations of a data directory and two databases.

use super::super::file::{DeploymentFile, Places};
use super::*;
use crate::db::deployment::Marks;
use crate::db::deployment::facts::MappedCell;

const ONE: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);

fn label(option: &str) -> StoreLabel {
    StoreLabel { what: "the database".into(), place: format!("place of {option}"), option: option.into() }
}

fn marked(part: Part, deployment: Uuid) -> Sight {
    Sight::Marked(Marks { part, deployment, others: BTreeSet::from([Part::Services]) })
}

fn unmarked(kind: Schema) -> Sight {
    Sight::Unmarked { kind: Some(kind) }
}

fn directory(state: Option<State>, is_used: bool) -> Directory {
    let file = state.map(|state| DeploymentFile { id: ONE, state, database: Places::default() });
    Directory { file, is_used, ..Directory::default() }
}

fn standing(contents: &Directory, api: Sight, services: Sight, adopt: bool) -> Result<Standing, String> {
    let (api, services) = (Seen { label: label(API), sight: api }, Seen { label: label(SERVICES), sight: services });
    judge(&label("--data-dir"), contents, &api, &services, adopt).map_err(|refusal| refusal.to_string())
}

#[track_caller]
fn refused(contents: &Directory, api: Sight, services: Sight, adopt: bool, words: &[&str]) {
    let said = standing(contents, api, services, adopt).unwrap_err();
    assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
}

#[test]
fn nothing_anywhere_is_a_new_deployment_and_only_that() {
    for api in [Sight::Absent, Sight::Empty] {
        assert_eq!(standing(&directory(None, false), api.clone(), Sight::Absent, false), Ok(Standing::New));
        refused(&directory(None, true), api, Sight::Empty, true, &["--data-dir", API, SERVICES, "elsewhere"]);
    }
}

#[test]
fn a_first_start_that_was_interrupted_anywhere_goes_on() {
    let making = directory(Some(State::Making), false);
    let api = Sight::Marked(Marks { part: Part::Api, deployment: ONE, others: BTreeSet::new() });
    for (api, services) in [
        (Sight::Absent, Sight::Absent),
        (api.clone(), Sight::Absent),
        (api, marked(Part::Services, ONE)),
        (marked(Part::Api, ONE), marked(Part::Services, ONE)),
    ] {
        assert_eq!(standing(&making, api, services, false), Ok(Standing::Making(ONE)));
    }
    // If the API database knows that the services database was marked, then the services database had records.
    refused(&making, marked(Part::Api, ONE), Sight::Empty, true, &[SERVICES, API, "not made anew"]);
    refused(&making, Sight::Absent, marked(Part::Services, ONE), true, &[SERVICES, API, "not made anew"]);
}

#[test]
fn a_whole_deployment_lacks_nothing_and_mixes_with_nothing() {
    let whole = directory(Some(State::Whole), true);
    let (api, services) = (|| marked(Part::Api, ONE), || marked(Part::Services, ONE));
    for adopt in [false, true] {
        assert_eq!(standing(&whole, api(), services(), adopt), Ok(Standing::Whole(ONE)));
        for blank in [Sight::Absent, Sight::Empty] {
            refused(&whole, blank.clone(), services(), adopt, &[API, "not made anew"]);
            refused(&whole, api(), blank.clone(), adopt, &[SERVICES, "not made anew"]);
            refused(&whole, blank.clone(), blank, adopt, &[API, "--data-dir", "not made anew"]);
        }
        let ids = [ONE.to_string(), OTHER.to_string()];
        let both = |option| [ids[0].as_str(), ids[1].as_str(), option];
        refused(&whole, marked(Part::Api, OTHER), services(), adopt, &both(API));
        refused(&whole, api(), marked(Part::Services, OTHER), adopt, &both(SERVICES));
        refused(&whole, marked(Part::Api, OTHER), marked(Part::Services, OTHER), adopt, &both("--data-dir"));
        refused(&whole, services(), api(), adopt, &[API, "marked as services"]);
        for used in [false, true] {
            let without = directory(None, used);
            if !(adopt && used) {
                refused(&without, api(), services(), adopt, &[&ids[0], "--data-dir", API]);
            }
        }
    }
    assert_eq!(standing(&directory(None, true), api(), services(), true), Ok(Standing::Adopting(Some(ONE))));
}

#[test]
fn tables_without_marks_are_adopted_alone_or_by_word() {
    let (api, services) = (|| unmarked(Schema::Api), || unmarked(Schema::Services));
    assert_eq!(standing(&directory(None, true), api(), services(), false), Ok(Standing::Adopting(None)));
    let adopting = directory(Some(State::Adopting), true);
    assert_eq!(standing(&adopting, marked(Part::Api, ONE), services(), false), Ok(Standing::Adopting(Some(ONE))));
    refused(&adopting, marked(Part::Api, ONE), Sight::Empty, true, &[SERVICES, "not made anew"]);
    let whole = directory(Some(State::Whole), true);
    refused(&whole, api(), marked(Part::Services, ONE), false, &[API, "--adopt"]);
    assert_eq!(standing(&whole, api(), marked(Part::Services, ONE), true), Ok(Standing::Adopting(Some(ONE))));
    refused(&whole, services(), services(), true, &[API, "tables of the services"]);
    refused(&whole, Sight::Unmarked { kind: None }, services(), true, &[API, "somebody else's"]);
    refused(&directory(None, true), Sight::Absent, services(), true, &[API, SERVICES, "not made anew"]);
}

#[test]
fn records_that_do_not_know_each_other_are_not_adopted() {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<String>>();
    let contents = Directory { is_used: true, bytes: ids(&["image", "lost"]), guests: ids(&["server"]), ..Directory::default() };
    let cell = MappedCell { uuid: ONE, name: "cell1".into(), url: "cell1.db".into() };
    let api = ApiFacts { cells: vec![cell], servers: vec![("server".into(), None)], projects: ids(&["project"]) };
    let services = ServicesFacts { projects: ids(&["project", "admin"]), with_bytes: ids(&["image"]), providers: ids(&[]) };
    let check = |contents: &Directory, api: &ApiFacts, services: &ServicesFacts, sight: Sight, adopt| {
        let api_seen = Seen { label: label(API), sight: unmarked(Schema::Api) };
        let services_seen = Seen { label: label(SERVICES), sight };
        unrelated((&label("--data-dir"), contents), (&api_seen, api), (&services_seen, services), adopt).map_err(|why| why.to_string())
    };
    let unmarked_services = || unmarked(Schema::Services);
    assert_eq!(check(&contents, &api, &services, unmarked_services(), false), Ok(()));
    let gone = check(&contents, &api, &ServicesFacts::default(), Sight::Empty, true).unwrap_err();
    assert!(gone.contains("not made anew") && gone.contains(SERVICES), "{gone}");
    for (contents, api, services, option) in [
        (Directory { bytes: ids(&["other"]), ..contents.clone() }, api.clone(), services.clone(), SERVICES),
        (Directory { guests: ids(&["other"]), ..contents.clone() }, api.clone(), services.clone(), API),
        (contents.clone(), ApiFacts { projects: ids(&["other"]), ..api.clone() }, services.clone(), API),
    ] {
        let said = check(&contents, &api, &services, unmarked_services(), false).unwrap_err();
        assert!(said.contains("do not belong together") && said.contains(option), "{said}");
        assert_eq!(check(&contents, &api, &services, unmarked_services(), true), Ok(()));
        let unused = Directory { is_used: false, ..contents };
        check(&unused, &api, &services, unmarked_services(), true).unwrap_err();
    }
}
