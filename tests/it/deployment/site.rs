//! A cloud on disk under the built program. Its databases can be taken away, moved, mixed and compared.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use cellshift::config::Config;
use cellshift::db::connection::has_log;
use cellshift::env::Env;
use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection, QueryableByName, RunQueryDsl};
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

use crate::client::{NewServer, id_of};
use crate::databases;
use crate::postgres_server::program;
use crate::service::{self, Ended, Service};

/// A directory with a data directory in it, and the configuration that made it.
pub struct Site {
    dir: TempDir,
    pub data: PathBuf,
    pub config: Config,
}

/// A client's resources, to be found again.
pub struct Made {
    pub server: Uuid,
    pub volume: Uuid,
}

/// Files by path, and tables of PostgreSQL databases by URL: everything that a start could change.
pub type Picture = BTreeMap<String, Vec<u8>>;

impl Site {
    pub fn new() -> Site {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        let mut config = Config { data_dir: data.clone(), ..Config::default() };
        databases::place_apart(&mut config);
        if !databases::on_postgres() {
            // Outside the data directory, so that it can be moved without them.
            let file = |name: &str| dir.path().join(format!("{name}.db")).to_string_lossy().into_owned();
            config.database.api = Some(file("api"));
            config.database.services = Some(file("services"));
            config.database.cells = ["cell0", "cell1", "cell2"].map(|cell| (cell.to_owned(), file(cell))).into();
        }
        Site { dir, data, config }
    }

    /// Returns a path beside the data directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the command-line options of this configuration, changed by `change`.
    pub fn options_with(&self, change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = self.config.clone();
        change(&mut config);
        let path = self.dir.path().join("config.toml");
        std::fs::write(&path, config.to_toml().expect("TOML")).expect("a file");
        vec!["--config".to_owned(), path.to_string_lossy().into_owned()]
    }

    pub fn options(&self) -> Vec<String> {
        self.options_with(|_| {})
    }

    pub fn start(&self) -> Service {
        self.start_with(&self.options())
    }

    pub fn start_with(&self, options: &[String]) -> Service {
        Service::start(&self.data, &borrowed(options))
    }

    /// Starts with these options, which must be refused without changes, and returns the sentence.
    #[track_caller]
    pub fn refused_with(&self, options: &[String]) -> String {
        let before = self.picture();
        let said = Service::refusal(&self.data, &borrowed(options));
        assert_eq!(said.lines().count(), 1, "{said}");
        let after = self.picture();
        let names = |picture: &Picture| picture.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&before), names(&after), "{said}");
        let changed: Vec<&String> = before.iter().filter(|(name, content)| after[*name] != **content).map(|(name, _)| name).collect();
        assert_eq!(changed, Vec::<&String>::new(), "{said}");
        said
    }

    /// Runs a subcommand over the data directory with these options.
    pub fn run(&self, command: &[&str], options: &[String]) -> Ended {
        let data = self.data.to_string_lossy().into_owned();
        service::run(&[command, &["--data-dir", data.as_str()], &borrowed(options)[..]].concat())
    }

    /// Checks that the audit of the stored data is clean and complete, and returns its output.
    #[track_caller]
    pub fn is_clean(&self, options: &[String]) -> String {
        let ended = self.run(&["audit"], options);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    /// Starts, makes a server and a volume, and stops.
    pub fn fill(&self) -> Made {
        let service = self.start();
        let made = actix_rt::System::new().block_on(async {
            let user = service.user(&self.data, "cellshift").await;
            let image = id_of(&user.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
            let server = id_of(&NewServer::of_image(image).ask(&user).await.expect(202).body["server"]);
            service.user(&self.data, "cellshift-admin").await.settled(server).await;
            assert_eq!(user.status(server).await, "ACTIVE");
            Made { server, volume: user.make_volume().await }
        });
        service.stop();
        made
    }

    /// Starts, finds everything, stops, and finds a clean audit without lost files.
    #[track_caller]
    pub fn everything_is_there(&self, made: &Made, options: &[String]) {
        let without_flag: Vec<String> = options.iter().filter(|option| *option != "--adopt").cloned().collect();
        let service = self.start_with(options);
        actix_rt::System::new().block_on(self.finds(&service, made));
        service.stop();
        let said = self.is_clean(&without_flag);
        assert!(!said.contains("lost+found"), "{said}");
    }

    async fn finds(&self, service: &Service, made: &Made) {
        let user = service.user(&self.data, "cellshift").await;
        service.user(&self.data, "cellshift-admin").await.settled(made.server).await;
        assert_eq!(user.status(made.server).await, "ACTIVE");
        let volume = user.get(&format!("/volume/v3/volumes/{}", made.volume)).await.expect(200).body;
        assert_eq!(volume["volume"]["status"], "available");
        let images = user.get("/image/v2/images?name=tiny").await.expect(200).body;
        assert_eq!(images["images"][0]["status"], "active");
        let image = id_of(&images["images"][0]);
        let bytes = user.get(&format!("/image/v2/images/{image}/file")).await.expect(200);
        assert_eq!(bytes.headers["content-length"], "4194304");
    }

    /// Takes a database away: moves its file, or renames its PostgreSQL database and makes an empty one in its place.
    pub fn take_away(&self, url: &str) {
        match of_postgres(url) {
            Some((server, name)) => {
                execute(&server, &[format!("ALTER DATABASE {name} RENAME TO {name}_away"), format!("CREATE DATABASE {name}")])
            }
            None => std::fs::rename(url, format!("{url}.away")).expect("a file moves"),
        }
    }

    pub fn bring_back(&self, url: &str) {
        match of_postgres(url) {
            Some((server, name)) => {
                execute(&server, &[format!("DROP DATABASE {name}"), format!("ALTER DATABASE {name}_away RENAME TO {name}")])
            }
            None => std::fs::rename(format!("{url}.away"), url).expect("a file moves"),
        }
    }

    /// Moves a database of a stopped service to another place for good, and returns the place. A SQLite file holds every commit by itself.
    pub fn moved(&self, url: &str) -> String {
        match of_postgres(url) {
            Some((server, name)) => {
                execute(&server, &[format!("ALTER DATABASE {name} RENAME TO {name}_moved")]);
                format!("{url}_moved")
            }
            None => {
                let to = format!("{url}.moved");
                assert!(!has_log(url), "{url}");
                std::fs::rename(url, &to).expect("a file moves");
                to
            }
        }
    }

    /// Makes an unused database.
    pub fn empty_database(&self) -> String {
        match self.config.database.api.as_deref().and_then(of_postgres) {
            Some((server, _)) => {
                let name = format!("test_{}", Env::system().uuid().simple());
                execute(&server, &[format!("CREATE DATABASE {name}")]);
                format!("{}/{name}", server.rsplit_once('/').expect("a URL").0)
            }
            None => self.beside("empty.db").to_string_lossy().into_owned(),
        }
    }

    /// Returns all databases in the configuration.
    pub fn databases(&self) -> Vec<String> {
        let database = &self.config.database;
        [&database.api, &database.services].into_iter().flatten().chain(database.cells.values()).cloned().collect()
    }

    /// Copies the stopped service's data and databases, as docs/operating/data.md says, and returns the directory with the copies.
    pub fn back_up(&self) -> PathBuf {
        let backup = self.beside("backup");
        std::fs::create_dir(&backup).expect("a directory");
        copied(&self.data, &backup);
        for (number, url) in self.databases().iter().enumerate() {
            let dump = backup.join(format!("{number}.dump"));
            match of_postgres(url) {
                Some(_) => done(Command::new(program("pg_dump")).args(["--format", "custom", "--file"]).arg(&dump).arg(url)),
                None => drop(std::fs::copy(url, &dump).expect("a copy")),
            }
        }
        backup
    }

    /// Brings the data directory of a backup back, without its databases.
    pub fn restore_data_alone(&self, backup: &Path) {
        std::fs::rename(&self.data, self.beside("data.old")).expect("the old data move");
        copied(&backup.join("data"), self.dir.path());
    }

    /// Brings a backup back in place of the stopped service's data.
    pub fn restore(&self, backup: &Path) {
        self.restore_data_alone(backup);
        for (number, url) in self.databases().iter().enumerate() {
            let dump = backup.join(format!("{number}.dump"));
            match of_postgres(url) {
                Some((server, name)) => {
                    execute(&server, &[format!("DROP DATABASE {name} WITH (FORCE)"), format!("CREATE DATABASE {name}")]);
                    done(Command::new(program("pg_restore")).args(["--no-owner", "--dbname", url]).arg(&dump));
                }
                None => {
                    assert!(!has_log(url), "{url}");
                    std::fs::copy(&dump, url).expect("a copy");
                }
            }
        }
    }

    /// Returns all files below the directory except SQLite's caches, and all rows of the PostgreSQL databases.
    pub fn picture(&self) -> Picture {
        let mut picture = Picture::new();
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a directory") {
                let path = entry.expect("an entry").path();
                let name = path.to_string_lossy().into_owned();
                if path.is_dir() {
                    picture.insert(name, Vec::new());
                    folders.push(path);
                } else if !name.ends_with("-shm") && !name.ends_with("config.toml") {
                    picture.insert(name, content_of(&path));
                }
            }
        }
        for url in self.databases().iter().filter(|url| of_postgres(url).is_some()) {
            picture.insert(url.clone(), rows_of(url).into_bytes());
        }
        picture
    }

    /// Restores the state of a release without marks.
    pub fn forget_identities(&self) {
        std::fs::remove_file(self.data.join("deployment.toml")).expect("a file goes");
        for url in self.databases() {
            databases::execute(&url, "DROP TABLE deployment");
        }
        for cell in ["cell1", "cell2"] {
            for host in std::fs::read_dir(self.data.join("cells").join(cell).join("hosts")).expect("hosts") {
                std::fs::remove_file(host.expect("a host").path().join("deployment")).expect("a file goes");
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for url in self.databases() {
            if let Some((server, name)) = of_postgres(&url) {
                execute(
                    &server,
                    &[format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"), format!("DROP DATABASE IF EXISTS {name}_moved WITH (FORCE)")],
                );
            }
        }
    }
}

/// Returns a file's bytes; for a large and sparse volume its length and its beginning.
fn content_of(path: &Path) -> Vec<u8> {
    let mut file = std::fs::File::open(path).expect("a file");
    let length = file.metadata().expect("a file").len();
    let mut content = length.to_be_bytes().to_vec();
    file.by_ref().take(16 << 20).read_to_end(&mut content).expect("a file");
    content
}

/// Copies a directory into another with its owners, rights and holes.
pub fn copied(from: &Path, into: &Path) {
    done(Command::new("cp").args(["--archive", "--sparse=always"]).arg(from).arg(into));
}

fn done(command: &mut Command) {
    let ended = command.output().expect("the command runs");
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

fn borrowed(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

/// Returns the administrator's URL of the server and the database's name; none for a file.
fn of_postgres(url: &str) -> Option<(String, String)> {
    if !url.starts_with("postgres") {
        return None;
    }
    let server = std::env::var("CELLSHIFT_TEST_POSTGRES").expect("a server");
    Some((server, url.rsplit('/').next().expect("a name").to_owned()))
}

fn execute(server: &str, statements: &[String]) {
    let mut admin = PgConnection::establish(server).expect("PostgreSQL answers");
    for statement in statements {
        admin.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

#[derive(QueryableByName)]
struct Text {
    #[diesel(sql_type = diesel::sql_types::Text)]
    text: String,
}

/// Returns all rows of all tables of a PostgreSQL database.
fn rows_of(url: &str) -> String {
    let mut conn = PgConnection::establish(url).expect("PostgreSQL answers");
    let tables: Vec<Text> = diesel::sql_query("SELECT tablename::text AS text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        .load(&mut conn)
        .expect("tables");
    let mut all = String::new();
    for table in tables {
        let rows: Vec<Text> = diesel::sql_query(format!("SELECT row_to_json(t)::text AS text FROM {} t ORDER BY 1", table.text))
            .load(&mut conn)
            .expect("rows");
        all += &format!("{}: {}\n", table.text, rows.into_iter().map(|row| row.text).collect::<Vec<_>>().join("\n"));
    }
    all
}

/// Returns the deployment's id in its data directory.
pub fn id_in(data: &Path) -> String {
    let text = std::fs::read_to_string(data.join("deployment.toml")).expect("deployment.toml");
    let file: Value = toml::from_str(&text).expect("TOML");
    file["id"].as_str().expect("an id").to_owned()
}
