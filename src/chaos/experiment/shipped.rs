//! The experiments of the folder `experiments/`, which the program carries: operators choose one without having its file.

/// A file of the folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shipped {
    /// The file's name without its ending.
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("../../../experiments/", $name, ".toml")) }),*]
    };
}

/// All files in the order of their names.
pub const SHIPPED: &[Shipped] = files![
    "a-bad-day",
    "abort-meets-the-end",
    "actors-stand-still",
    "bandwidth-runs-out-mid-move",
    "both-cells-flap",
    "clock-goes-back",
    "commits-that-say-they-failed",
    "conductor-dies-at-the-pivot",
    "drain-whose-controller-dies",
    "evacuated-host-dies-and-returns",
    "host-returns-without-guests",
    "late-effects-after-rollback",
    "live-source-dies-after-switch-over",
    "lost-replies-at-upload",
    "many-faults-for-few-servers",
    "parallel-moves-of-a-group",
    "process-killed-during-confirm",
    "requests-delivered-twice",
    "services-go-down-mid-move",
    "target-cell-cut-off",
    "target-host-dies-mid-spawn",
    "two-conductors-one-stands-still",
];

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn the_program_carries_each_experiment_of_the_folder() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/experiments")).unwrap();
        let mut names: Vec<String> = folder.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let carried: Vec<String> = SHIPPED.iter().map(|file| format!("{}.toml", file.name)).collect();
        assert_eq!(carried, names);
        for file in SHIPPED {
            assert!(!check::read(file.text).unwrap().title.is_empty(), "{}", file.name);
        }
    }
}
