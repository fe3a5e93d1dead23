//! Writes the matrix as a table: a row per side of a step, a column per fault, and the numbers of run and held cases. Markdown, one file
//! per scenario, in the directory that `CELLSHIFT_FAULTS_TABLE` names.

use std::collections::BTreeMap;
use std::path::Path;

use super::plan::Case;

const DIRECTORY: &str = "CELLSHIFT_FAULTS_TABLE";

/// Writes a scenario's table if the variable is set.
pub fn write(scenario: &str, outcomes: &[(Case, bool)]) {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let file = Path::new(&directory).join(format!("{scenario}.md"));
        std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(file, markdown(scenario, outcomes)))
            .expect("the table is written");
    }
}

fn side(case: &Case) -> String {
    format!("{} {}", if case.undo.is_some() { "undo" } else { "act" }, case.step)
}

fn fault(case: &Case) -> String {
    let times = if case.times == 1 { String::new() } else { format!(" ×{}", case.times) };
    format!("{:?} {:?}{times}", case.moment, case.fault)
}

fn markdown(scenario: &str, outcomes: &[(Case, bool)]) -> String {
    let (mut rows, mut cells) = (Vec::new(), BTreeMap::<(String, String), (usize, usize)>::new());
    for (case, held) in outcomes {
        let row = side(case);
        if !rows.contains(&row) {
            rows.push(row.clone());
        }
        let cell = cells.entry((row, fault(case))).or_default();
        *cell = (cell.0 + usize::from(*held), cell.1 + 1);
    }
    let mut columns: Vec<&String> = cells.keys().map(|(_, fault)| fault).collect();
    columns.sort();
    columns.dedup();
    let held = outcomes.iter().filter(|(_, held)| *held).count();
    let mut text = format!("# {scenario}: {held} of {} cases held\n\n| |", outcomes.len());
    columns.iter().for_each(|column| text.push_str(&format!(" {column} |")));
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(columns.len())));
    for row in &rows {
        text.push_str(&format!("| {row} |"));
        for column in &columns {
            let cell = cells.get(&(row.clone(), (*column).clone()));
            text.push_str(&cell.map_or_else(|| "  |".to_owned(), |(held, all)| format!(" {held}/{all} |")));
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_cell_tells_how_many_of_its_cases_held() {
    use super::plan::Lead;
    use cellshift::chaos::point::{Moment, StepFault};
    let case = |step, fault, times, undo| Case { step, moment: Moment::BeforeEffect, fault, times, undo, first: None };
    let outcomes = [
        (case("accept", StepFault::Refuse, 1, None), true),
        (case("publish", StepFault::Refuse, 1, None), false),
        (case("publish", StepFault::Refuse, 8, None), true),
        (case("accept", StepFault::Refuse, 1, Some(Lead::Refused("publish"))), true),
        (case("accept", StepFault::Refuse, 1, Some(Lead::Failed("publish"))), false),
    ];
    let expected = "# move: 3 of 5 cases held\n\n| | BeforeEffect Refuse | BeforeEffect Refuse ×8 |\n|---|---|---|\n\
                  | act accept | 1/1 |  |\n| act publish | 0/1 | 1/1 |\n| undo accept | 1/2 |  |\n";
    assert_eq!(markdown("move", &outcomes), expected);
}
