//! Makes malformed requests from valid ones: values of wrong kinds, sizes and characters in all places.

use cellshift::env::random::Random;
use serde_json::{Value, json};

use super::wire::Request;

/// Names of query parameters of all APIs.
const PARAMETERS: &[&str] = &[
    "limit",
    "marker",
    "offset",
    "sort_key",
    "sort_dir",
    "sort",
    "fields",
    "name",
    "status",
    "id",
    "all_tenants",
    "all_projects",
    "project_id",
    "tenant_id",
    "user_id",
    "changes-since",
    "changes-before",
    "deleted",
    "host",
    "ip",
    "ip6",
    "image",
    "flavor",
    "tags",
    "tags-any",
    "not-tags",
    "reservation_id",
    "created_at",
    "locked",
    "uuid",
    "availability_zone",
    "metadata",
    "bootable",
    "with_count",
    "device_id",
    "network_id",
    "fixed_ips",
    "mac_address",
    "shared",
    "page_reverse",
    "cidr",
    "ip_version",
    "resources",
    "required",
    "member_of",
    "in_tree",
    "group_policy",
    "root_required",
    "associated",
    "consumer_type",
    "visibility",
    "member_status",
    "owner",
    "size_min",
    "size_max",
    "tag",
    "start",
    "end",
    "detailed",
    "migration_type",
    "source_compute",
    "is_public",
    "minRam",
    "minDisk",
    "with_servers",
    "hypervisor_hostname_pattern",
    "usage",
    "effective",
    "include_names",
    "scope.project.id",
    "nocatalog",
    "server",
    "instance_id",
    "volume_id",
    "deep",
    "os_hidden",
    "protected",
    "checksum",
];

/// JSON numbers as text, because a parsed value cannot hold all of them.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1.5",
    "-0.0",
    "1e308",
    "1e999",
    "-1e-7",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "123456789012345678901234567890",
    "9007199254740993",
];

/// Unexpected texts.
const TEXTS: &[&str] = &[
    "",
    " ",
    "\u{0}",
    "a\u{0}b",
    "\n",
    "\t\r",
    "\u{7f}",
    "\u{85}",
    "\u{1b}[31m",
    "ä",
    "日本語",
    "\u{202e}abc",
    "👾",
    "e\u{301}",
    "\u{feff}",
    "'",
    "\"",
    "\\",
    "%",
    "%00",
    "%2e%2e",
    "../../..",
    "a/b",
    "a,b",
    "a;b",
    "<b>",
    "${x}",
    "{}",
    "null",
    "true",
    "-1",
    "0",
    "1e9",
    "0x10",
    "١٢",
    "9223372036854775808",
    "1.2.3.4",
    "1.2.3.4/33",
    "::1",
    "fe80::1%eth0",
    "::/0",
    "0.0.0.0/0",
    "ff:ff:ff:ff:ff:ff",
    "1970-01-01T00:00:00Z",
    "99999-01-01T00:00:00Z",
    "2020-02-30",
    "-0001-01-01T00:00:00Z",
    "00000000-0000-0000-0000-000000000000",
    "in:a,b",
    "!a",
    "eq:1",
    "gt:",
    "VCPU:0",
    "VCPU:9223372036854775807",
    "name:asc",
    "CUSTOM_",
    "default",
    "admin",
    "*",
    "_",
    ".",
    "..",
    "YWJj",
    "====",
    "ssh-rsa AAAA",
    "/dev/vdb",
    "/etc/passwd",
    "tcp",
    "any",
    "256",
    "65536",
];

/// Makes random choices, with a stock of existing ids.
pub struct Mutator {
    pub random: Random,
    /// Ids of resources, which may replace ids of another kind.
    pub ids: Vec<String>,
}

impl Mutator {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        self.random.pick(of).copied().unwrap_or_default()
    }

    /// Returns a random text of at most `longest` characters.
    pub fn text(&mut self, longest: usize) -> String {
        match self.random.below(10) {
            0 => "x".repeat(self.number(longest)),
            1 => "ä".repeat(self.number(longest / 2)),
            2 => [255, 256, 65, 36, 61].map(|length| "y".repeat(length))[self.number(5)].clone(),
            3 | 4 => {
                let ids = std::mem::take(&mut self.ids);
                let id = self.random.pick(&ids).cloned().unwrap_or_default();
                self.ids = ids;
                id
            }
            _ => self.one(TEXTS).to_owned(),
        }
    }

    fn number(&mut self, below: usize) -> usize {
        usize::try_from(self.random.below(below as u64)).unwrap_or_default()
    }

    /// Returns the JSON text of a random value.
    fn value(&mut self) -> String {
        match self.random.below(14) {
            0 => "null".to_owned(),
            1 => "true".to_owned(),
            2 => "{}".to_owned(),
            3 => "[]".to_owned(),
            4 | 5 => self.one(NUMBERS).to_owned(),
            6 => format!("[{}]", vec![self.json_text(); 1 + self.number(3)].join(",")),
            7 => format!("{{{}:{}}}", self.json_text(), self.json_text()),
            8 => r#""\ud800""#.to_owned(),
            9 => format!("[{}]", vec![json!(self.text(40)).to_string(); self.number(3000)].join(",")),
            10 => {
                let depth = [5, 60, 126, 200, 5000][self.number(5)];
                format!("{}{}", "[".repeat(depth), "]".repeat(depth))
            }
            11 => {
                let many: Vec<String> = (0..self.number(2000)).map(|key| format!("\"k{key}\":\"v\"")).collect();
                format!("{{{}}}", many.join(","))
            }
            _ => self.json_text(),
        }
    }

    fn json_text(&mut self) -> String {
        json!(self.text(70_000)).to_string()
    }

    /// Returns the body with up to three wrong values, keys or pieces of text.
    pub fn body(&mut self, body: &Value) -> Vec<u8> {
        let mut body = body.clone();
        let mut replaced = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let places = count(&body);
            let at = self.number(places);
            let value = self.value();
            let how = self.random.below(10);
            change(&mut body, &mut { at }, &mut |place| match (how, place) {
                (0, Value::Object(map)) => {
                    if let Some(key) = map.keys().next().cloned() {
                        map.remove(&key);
                    }
                }
                (1 | 2, Value::Object(map)) => {
                    map.insert(format!("§{}", replaced.len()), Value::Null);
                }
                (3, Value::Array(items)) if items.len() < 10 => {
                    let copies = items.clone();
                    items.extend((0..300).flat_map(|_| copies.clone()));
                }
                (_, place) => {
                    *place = json!(format!("§{}", replaced.len()));
                }
            });
            replaced.push(value);
        }
        let mut text = body.to_string();
        for (number, value) in replaced.iter().enumerate().rev() {
            let key = format!("\"§{number}\":null");
            if text.contains(&key) {
                let name = if self.random.percent(50) { self.json_text() } else { format!("\"{}\"", self.one(PARAMETERS)) };
                text = text.replace(&key, &format!("{name}:{value}"));
            }
            text = text.replace(&format!("\"§{number}\""), value);
        }
        self.broken(text)
    }

    /// Sometimes breaks the JSON syntax.
    fn broken(&mut self, text: String) -> Vec<u8> {
        let mut bytes = text.into_bytes();
        match self.random.below(40) {
            0 => bytes.truncate(self.number(bytes.len() + 1)),
            1 => bytes.extend(b"}"),
            2 => bytes.insert(self.number(bytes.len() + 1), 0xff),
            3 => bytes.insert(self.number(bytes.len() + 1), 0),
            4 => bytes.splice(0..0, *b"\xef\xbb\xbf").for_each(drop),
            5 => bytes.clear(),
            6 => {
                // A repeated key.
                let twice = String::from_utf8_lossy(&bytes).replacen('{', "{\"server\":{},\"server\":1,", 1);
                bytes = twice.into_bytes();
            }
            _ => {}
        }
        bytes
    }

    /// Replaces a part of the path, or adds query parameters.
    pub fn target(&mut self, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        if self.random.percent(60) && parts.len() > 3 {
            let at = 3 + self.number(parts.len() - 3);
            parts[at] = encoded(&self.text(3_000));
        }
        let mut pairs: Vec<String> = query.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
        for _ in 0..self.random.below(3) {
            let (name, value) = (self.one(PARAMETERS).to_owned(), self.text(3_000));
            pairs.push(format!("{name}={}", encoded(&value)));
        }
        if pairs.is_empty() { parts.join("/") } else { format!("{}?{}", parts.join("/"), pairs.join("&")) }
    }

    /// Sets a header that the service reads to a random value.
    pub fn header(&mut self, request: &mut Request) {
        let minor = self.random.below(110);
        let (name, value) = match self.random.below(12) {
            0 => (
                "Content-Type",
                self.one(&["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "", ";"]).to_owned(),
            ),
            1 => ("Content-Type", self.one(&["application/octet-stream", "multipart/form-data", "application/toml"]).to_owned()),
            2 => ("OpenStack-API-Version", format!("compute 2.{minor}")),
            3 => ("OpenStack-API-Version", format!("placement 1.{}", minor % 45)),
            4 => (
                "OpenStack-API-Version",
                self.one(&["compute 2.latest", "compute latest", "compute 3.0", "compute 2.-1", "volume 3.99", "x", ""]).to_owned(),
            ),
            5 => ("X-OpenStack-Nova-API-Version", format!("2.{minor}")),
            6 => {
                ("Range", self.one(&["bytes=0-0", "bytes=5-1", "bytes=-1", "bytes=99999999999999999999-", "x", "bytes=0-1,3-4"]).to_owned())
            }
            7 => ("Accept", self.one(&["text/html", "*/*;q=x", "application/xml"]).to_owned()),
            8 => ("Host", self.one(&["", "a b", "[::1]:99999", "evil.example", "x:y:z"]).to_owned()),
            9 => ("X-Forwarded-Host", self.one(&["evil.example", "", "a,b", "\"'"]).to_owned()),
            10 => ("X-Openstack-Request-Id", self.one(&["req-1", "", "\"'<b>", "req-00000000-0000-0000-0000-000000000000"]).to_owned()),
            _ => ("X-Subject-Token", self.text(2_000)),
        };
        let value: Vec<u8> = value.bytes().filter(|byte| !matches!(byte, 0..=31 | 127)).collect();
        request.header(name, value);
    }
}

/// Counts the values in a value, with the value itself.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// Changes the value with this number.
fn change(value: &mut Value, at: &mut usize, what: &mut impl FnMut(&mut Value)) {
    if *at == 0 {
        what(value);
        *at = usize::MAX;
        return;
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| {
            if *at != usize::MAX {
                change(item, at, what)
            }
        }),
        Value::Object(map) => map.values_mut().for_each(|item| {
            if *at != usize::MAX {
                change(item, at, what)
            }
        }),
        _ => {}
    }
}

fn encoded(text: &str) -> String {
    let one = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-._~:,".contains(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(one).collect()
}

#[test]
fn a_seed_gives_the_same_requests_again() {
    let mutator = |seed| Mutator { random: Random::new(seed, "fuzz"), ids: vec!["id".to_owned()] };
    let body = json!({"server": {"name": "x", "networks": [{"uuid": "y"}]}});
    let bodies = |seed| {
        let mut mutator = mutator(seed);
        (0..50).map(|_| mutator.body(&body)).collect::<Vec<_>>()
    };
    assert_eq!(bodies(1), bodies(1));
    let distinct: std::collections::BTreeSet<Vec<u8>> = bodies(1).into_iter().chain(bodies(2)).collect();
    assert!(distinct.len() > 60, "requests differ: {}", distinct.len());
    assert_eq!(encoded("a/ä\0"), "a%2F%C3%A4%00");
}
