//! The resources in the house, and ways to make more of them.

mod volumes;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::house::{Filled, House, PASSWORD};
use super::row::{Body, Row};

const OCTETS: &str = "application/octet-stream";
const PATCH: &str = "application/openstack-images-v2.1-json-patch";
const SHARE: &str = r#"[{"op": "replace", "path": "/visibility", "value": "shared"}]"#;

/// The kinds of which the house has a specimen, in the order in which they are made.
const KINDS: [&str; 41] = [
    "image",
    "network",
    "tagged_network",
    "subnet",
    "subnet_pool",
    "port",
    "router",
    "linked_router",
    "security_group",
    "security_group_rule",
    "volume",
    "snapshot",
    "backup",
    "volume_transfer",
    "server_group",
    "keypair",
    "application_credential",
    "credential",
    "access_key",
    "external_network",
    "floating_ip",
    "flavor",
    "aggregate",
    "qos_policy",
    "ruled_policy",
    "tagged_policy",
    "made_type",
    "private_type",
    "qos_specs",
    "message",
    "provider",
    "resource_class",
    "trait",
    "consumer",
    "group",
    "joined_group",
    "granted_group",
    "domain",
    "added_service",
    "added_endpoint",
    "added_region",
];

impl House {
    /// Makes a specimen of each kind, in project demo if kinds have projects.
    pub async fn furnish(&mut self) {
        // A project gets its default security group and its quota turn when it first makes something.
        for caller in ["other", "admin"] {
            let group = json!({"security_group": {"name": "own"}});
            self.make_as(caller, "POST", "/network/v2.0/security-groups", group, "/security_group/id").await;
        }
        for kind in KINDS {
            self.add(kind).await;
        }
        let lookups = [
            ("public_image", "/image/v2/images?visibility=public", "/images/0/id"),
            ("shared_network", "/network/v2.0/networks?shared=true", "/networks/0/id"),
            ("hypervisor", "/compute/v2.1/os-hypervisors", "/hypervisors/0/id"),
            ("hypervisor_name", "/compute/v2.1/os-hypervisors", "/hypervisors/0/hypervisor_hostname"),
            ("identity_service", "/identity/v3/services", "/services/0/id"),
            ("endpoint", "/identity/v3/endpoints", "/endpoints/0/id"),
            ("region", "/identity/v3/regions", "/regions/0/id"),
            ("extension", "/compute/v2.1/extensions", "/extensions/0/alias"),
            ("volume_type", "/volume/v3/types", "/volume_types/0/id"),
        ];
        for (name, path, pointer) in lookups {
            let id = self.look(path, pointer).await;
            self.names.insert(name, id);
        }
        for kind in ["server", "attached_volume", "moved_server", "routed_server"] {
            self.add(kind).await;
        }
        self.rest().await;
        self.find_what_servers_left().await;
        self.lead_a_floating_ip().await;
        for kind in ["bound_port", "shared_image"] {
            self.add(kind).await;
        }
    }

    async fn add(&mut self, kind: &'static str) {
        let id = self.another(kind).await;
        self.names.insert(kind, id);
    }

    async fn find_what_servers_left(&mut self) {
        let server = self.names["server"].clone();
        let moved = self.names["moved_server"].clone();
        let lookups = [
            ("action_request", format!("/compute/v2.1/servers/{server}/os-instance-actions"), "/instanceActions/0/request_id"),
            ("attachment", "/volume/v3/attachments?all_tenants=1".to_owned(), "/attachments/0/id"),
            ("migration", format!("/ops/v1/migrations?server={moved}"), "/migrations/0/uuid"),
            ("host", format!("/compute/v2.1/servers/{server}"), "/server/OS-EXT-SRV-ATTR:host"),
            ("compute_service", "/compute/v2.1/os-services?binary=nova-compute".to_owned(), "/services/0/id"),
            ("server_port", format!("/network/v2.0/ports?device_id={server}"), "/ports/0/id"),
        ];
        for (name, path, pointer) in lookups {
            let id = self.look(&path, pointer).await;
            self.names.insert(name, id);
        }
        let (cell, number) = self.names["host"].split_once("-host").expect("a host of a cell");
        let other = format!("{cell}-host{}", if number == "1" { 2 } else { 1 });
        let far = if cell == "cell1" { "cell2" } else { "cell1" }.to_owned();
        self.names.extend([("other_host", other), ("far_host", format!("{far}-host1")), ("far_zone", far)]);
    }

    async fn lead_a_floating_ip(&mut self) {
        let port = self.look(&format!("/network/v2.0/ports?device_id={}", self.names["routed_server"]), "/ports/0/id").await;
        let body = json!({"floating_network_id": self.names["external_network"], "port_id": port});
        let floating = self.of_network("floatingips", "floatingip", body).await;
        let address = self.look(&format!("/network/v2.0/floatingips/{floating}"), "/floatingip/floating_ip_address").await;
        self.names.extend([("routed_port", port), ("led_floating_ip", floating), ("led_address", address)]);
    }

    /// Makes a further specimen of a kind, and returns its id.
    pub async fn another(&self, kind: &str) -> String {
        let name = self.fresh_name();
        let at = |name: &str| self.names[name].clone();
        match kind {
            "network" => self.of_network("networks", "network", json!({"name": name})).await,
            "subnet" => self.subnet_of(&at("network")).await,
            "port" => self.of_network("ports", "port", json!({"network_id": at("network"), "name": name})).await,
            "router" => self.of_network("routers", "router", json!({"name": name})).await,
            "linked_router" => {
                let router = Box::pin(self.another("router")).await;
                let subnet = Box::pin(self.another("subnet")).await;
                let path = format!("/network/v2.0/routers/{router}/add_router_interface");
                self.done("PUT", &path, "", Body::Json(json!({"subnet_id": subnet}))).await;
                router
            }
            "external_network" => {
                let new = json!({"network": {"name": name, "router:external": true}});
                let network = self.make_as("admin", "POST", "/network/v2.0/networks", new, "/network/id").await;
                let subnet = json!({"subnet": {"network_id": network, "cidr": "203.0.112.0/22", "ip_version": 4}});
                self.make_as("admin", "POST", "/network/v2.0/subnets", subnet, "/subnet/id").await;
                network
            }
            "subnet_pool" => self.of_network("subnetpools", "subnetpool", json!({"name": name, "prefixes": ["10.0.0.0/8"]})).await,
            "floating_ip" => {
                let body = json!({"floating_network_id": at("external_network")});
                self.of_network("floatingips", "floatingip", body).await
            }
            "security_group" => self.of_network("security-groups", "security_group", json!({"name": name})).await,
            "security_group_rule" => {
                let port = 1000 + self.number_of(&name);
                let rule = json!({"security_group_id": at("security_group"), "direction": "ingress", "protocol": "tcp",
                    "port_range_min": port, "port_range_max": port});
                self.of_network("security-group-rules", "security_group_rule", rule).await
            }
            "qos_policy" => {
                let new = json!({"policy": {"name": name, "project_id": at("project")}});
                self.make_as("admin", "POST", "/network/v2.0/qos/policies", new, "/policy/id").await
            }
            "ruled_policy" => {
                let policy = Box::pin(self.another("qos_policy")).await;
                let path = format!("/network/v2.0/qos/policies/{policy}/minimum_bandwidth_rules");
                let rule = json!({"minimum_bandwidth_rule": {"min_kbps": 1000}});
                self.make_as("admin", "POST", &path, rule, "/minimum_bandwidth_rule/id").await;
                policy
            }
            "tagged_policy" => {
                let policy = Box::pin(self.another("qos_policy")).await;
                self.done("PUT", &format!("/network/v2.0/qos/policies/{policy}/tags/blue"), "", Body::None).await;
                policy
            }
            "tagged_network" => {
                let network = Box::pin(self.another("network")).await;
                self.done("PUT", &format!("/network/v2.0/networks/{network}/tags/blue"), "", Body::None).await;
                network
            }
            "bound_port" => {
                let port = Box::pin(self.another("port")).await;
                for host in ["host", "other_host"] {
                    let binding = json!({"binding": {"host": at(host)}});
                    self.done("POST", &format!("/network/v2.0/ports/{port}/bindings"), "", Body::Json(binding)).await;
                }
                port
            }
            "image" | "empty_image" | "shared_image" | "tagged_image" => self.another_image(kind, name).await,
            other => self.another_of_compute(other, name).await,
        }
    }

    async fn another_image(&self, kind: &str, name: String) -> String {
        match kind {
            "shared_image" => {
                let image = Box::pin(self.another("image")).await;
                let share = Body::Raw(PATCH.to_owned(), SHARE.to_owned());
                self.done("PATCH", &format!("/image/v2/images/{image}"), "", share).await;
                let member = json!({"member": self.names["other_project"]});
                self.done("POST", &format!("/image/v2/images/{image}/members"), "", Body::Json(member)).await;
                image
            }
            "tagged_image" => {
                let image = Box::pin(self.another("image")).await;
                self.done("PUT", &format!("/image/v2/images/{image}/tags/blue"), "", Body::None).await;
                image
            }
            "image" => {
                let new = json!({"name": name, "disk_format": "raw", "container_format": "bare", "colour": "blue"});
                let id = self.make_as("member", "POST", "/image/v2/images", new, "/id").await;
                self.send_as(
                    "member",
                    "PUT",
                    &format!("/image/v2/images/{id}/file"),
                    "",
                    &Body::Raw(OCTETS.to_owned(), "some bytes".to_owned()),
                )
                .await;
                id
            }
            _ => {
                let new = json!({"name": name, "disk_format": "raw", "container_format": "bare"});
                self.make_as("member", "POST", "/image/v2/images", new, "/id").await
            }
        }
    }

    async fn another_of_compute(&self, kind: &str, name: String) -> String {
        match kind {
            "server" => self.server_with(json!({})).await,
            // On a network that a router joins with the external one.
            "routed_server" => {
                let network = Box::pin(self.another("network")).await;
                let subnet = self.subnet_of(&network).await;
                let gateway = json!({"external_gateway_info": {"network_id": self.names["external_network"]}});
                let router = self.of_network("routers", "router", gateway).await;
                let path = format!("/network/v2.0/routers/{router}/add_router_interface");
                self.done("PUT", &path, "", Body::Json(json!({"subnet_id": subnet}))).await;
                self.server_with(json!({"networks": [{"uuid": network}]})).await
            }
            "locked_server" => self.acted("server", json!({"lock": null})).await,
            "stopped_server" => self.acted("server", json!({"os-stop": null})).await,
            "paused_server" => self.acted("server", json!({"pause": null})).await,
            "suspended_server" => self.acted("server", json!({"suspend": null})).await,
            "rescued_server" => self.acted("server", json!({"rescue": null})).await,
            "moved_server" => self.acted("server", json!({"resize": {"flavorRef": "m1.small"}})).await,
            "shelved_server" => self.acted("server", json!({"shelve": null})).await,
            "offloaded_server" => {
                // In the cell of the house's host, to which it may then be unshelved.
                let (cell, _) = self.names["host"].split_once("-host").expect("a host of a cell");
                let server = self.server_with(json!({"availability_zone": cell})).await;
                let path = format!("/compute/v2.1/servers/{server}/action");
                for action in ["shelve", "shelveOffload"] {
                    self.done("POST", &path, "compute 2.90", Body::Json(json!({action: null}))).await;
                    self.rest().await;
                }
                server
            }
            "server_with_group" => self.server_with(json!({"security_groups": [{"name": "default"}]})).await,
            "server_group" => {
                let new = json!({"server_group": {"name": name, "policy": "affinity"}});
                self.make_as("member", "POST", "/compute/v2.1/os-server-groups", new, "/server_group/id").await
            }
            "keypair" => self.keypair_of("member").await,
            other => self.another_of_volumes(other, name).await,
        }
    }

    async fn another_of_operators(&self, kind: &str, name: String) -> String {
        match kind {
            "flavor" => {
                let new = json!({"flavor": {"name": name, "vcpus": 1, "ram": 64, "disk": 1, "os-flavor-access:is_public": false}});
                let id = self.make_as("admin", "POST", "/compute/v2.1/flavors", new, "/flavor/id").await;
                let specs = json!({"extra_specs": {"colour": "blue"}});
                self.make_as("admin", "POST", &format!("/compute/v2.1/flavors/{id}/os-extra_specs"), specs, "/extra_specs/colour").await;
                let access = json!({"addTenantAccess": {"tenant": self.names["project"]}});
                self.make_as("admin", "POST", &format!("/compute/v2.1/flavors/{id}/action"), access, "/flavor_access").await;
                id
            }
            "aggregate" => {
                let new = json!({"aggregate": {"name": name}});
                self.make_as("admin", "POST", "/compute/v2.1/os-aggregates", new, "/aggregate/id").await
            }
            "aggregate_with_host" => {
                let aggregate = Box::pin(self.another("aggregate")).await;
                let add = json!({"add_host": {"host": self.names["host"]}});
                self.done("POST", &format!("/compute/v2.1/os-aggregates/{aggregate}/action"), "compute 2.90", Body::Json(add)).await;
                aggregate
            }
            "made_type" | "private_type" => {
                let new = json!({"name": name, "extra_specs": {"colour": "blue"}, "os-volume-type-access:is_public": kind == "made_type"});
                self.make_as("admin", "POST", "/volume/v3/types", json!({"volume_type": new}), "/volume_type/id").await
            }
            // With a type.
            "qos_specs" => {
                let new = json!({"qos_specs": {"name": name, "colour": "blue"}});
                let id = self.make_as("admin", "POST", "/volume/v3/qos-specs", new, "/qos_specs/id").await;
                let path = format!("/volume/v3/qos-specs/{id}/associate?vol_type_id={}", Box::pin(self.another("made_type")).await);
                self.done("GET", &path, "", Body::None).await;
                id
            }
            "granted_type" => {
                let made = Box::pin(self.another("private_type")).await;
                let access = json!({"addProjectAccess": {"project": self.names["project"]}});
                self.done("POST", &format!("/volume/v3/types/{made}/action"), "", Body::Json(access)).await;
                made
            }
            "provider" => {
                let new = json!({"name": name});
                let id = self.make_as("admin", "POST", "/placement/resource_providers", new, "/uuid").await;
                let inventories = json!({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 100}}});
                let path = format!("/placement/resource_providers/{id}/inventories");
                self.make_as("admin", "PUT", &path, inventories, "/resource_provider_generation").await;
                id
            }
            "bare_provider" => self.make_as("admin", "POST", "/placement/resource_providers", json!({"name": name}), "/uuid").await,
            "resource_class" | "trait" => {
                let custom = format!("CUSTOM_{}", name.to_uppercase());
                let collection = if kind == "trait" { "traits" } else { "resource_classes" };
                let answer =
                    self.send_as("admin", "PUT", &format!("/placement/{collection}/{custom}"), "placement 1.39", &Body::None).await;
                assert_eq!(answer.status, 201, "{}", answer.text);
                custom
            }
            // Only a new name, for a consumer without allocations.
            "consumer" => uuid_like(self.number_of(&name)),
            "class_name" => format!("CUSTOM_{}", name.to_uppercase()),
            "name" => name,
            other => self.another_of_identity(other, name).await,
        }
    }

    async fn another_of_identity(&self, kind: &str, name: String) -> String {
        match kind {
            "user" | "another_user" => self.of_identity("users", "user", json!({"name": name, "password": PASSWORD})).await,
            "project" => self.of_identity("projects", "project", json!({"name": name})).await,
            "granted_user" => {
                let user = Box::pin(self.another("user")).await;
                let path = format!("/identity/v3/projects/{}/users/{user}/roles/{}", self.names["project"], self.names["role"]);
                self.done("PUT", &path, "", Body::None).await;
                user
            }
            "token" => self.sign_in("custom", PASSWORD, json!({"project": {"id": self.names["home"]}})).await,
            "application_credential" => {
                let path = format!("/identity/v3/users/{}/application_credentials", self.names["user"]);
                let new = json!({"application_credential": {"name": name}});
                self.make_as("member", "POST", &path, new, "/application_credential/id").await
            }
            "credential" => {
                let new = json!({"credential": {"user_id": self.names["user"], "type": "totp", "blob": "GEZDGNBVGY3TQOJQ"}});
                self.make_as("member", "POST", "/identity/v3/credentials", new, "/credential/id").await
            }
            "access_key" => {
                let path = format!("/identity/v3/users/{}/credentials/OS-EC2", self.names["user"]);
                self.make_as("member", "POST", &path, json!({"tenant_id": self.names["home"]}), "/credential/access").await
            }
            "group" => self.of_identity("groups", "group", json!({"name": name})).await,
            // With the house's user.
            "joined_group" => {
                let group = Box::pin(self.another("group")).await;
                let path = format!("/identity/v3/groups/{group}/users/{}", self.names["user"]);
                self.done("PUT", &path, "", Body::None).await;
                group
            }
            "granted_group" => {
                let group = Box::pin(self.another("group")).await;
                let path = format!("/identity/v3/projects/{}/groups/{group}/roles/{}", self.names["project"], self.names["role"]);
                self.done("PUT", &path, "", Body::None).await;
                group
            }
            "domain" => self.of_identity("domains", "domain", json!({"name": name})).await,
            // An enabled domain cannot be deleted.
            "disabled_domain" => self.of_identity("domains", "domain", json!({"name": name, "enabled": false})).await,
            "added_service" => self.of_identity("services", "service", json!({"type": name})).await,
            "added_endpoint" => {
                let new = json!({"service_id": self.names["added_service"], "interface": "public", "url": "http://backups.example.com"});
                self.of_identity("endpoints", "endpoint", new).await
            }
            "added_region" => self.of_identity("regions", "region", json!({"id": name})).await,
            "role" => self.of_identity("roles", "role", json!({"name": name})).await,
            other => panic!("nothing is called {other}"),
        }
    }

    /// Sends a request as an administrator, which must succeed.
    async fn done(&self, method: &str, path: &str, version: &str, body: Body) {
        let answer = self.send_as("admin", method, path, version, &body).await;
        assert!(answer.status < 300, "{method} {path}: {} {}", answer.status, answer.text);
    }

    fn number_of(&self, name: &str) -> u32 {
        name.trim_start_matches("new").parse().expect("a fresh name")
    }

    async fn of_network(&self, collection: &str, name: &str, attributes: Value) -> String {
        let pointer = format!("/{name}/id");
        self.make_as("member", "POST", &format!("/network/v2.0/{collection}"), json!({name: attributes}), &pointer).await
    }

    async fn subnet_of(&self, network: &str) -> String {
        let number = self.number_of(&self.fresh_name());
        let cidr = format!("10.{}.{}.0/24", 100 + number / 250, number % 250);
        self.of_network("subnets", "subnet", json!({"network_id": network, "cidr": cidr, "ip_version": 4})).await
    }

    async fn of_identity(&self, collection: &str, name: &str, attributes: Value) -> String {
        let pointer = format!("/{name}/id");
        self.make_as("admin", "POST", &format!("/identity/v3/{collection}"), json!({name: attributes}), &pointer).await
    }

    /// Makes a key pair of the caller, and returns its name.
    pub async fn keypair_of(&self, caller: &str) -> String {
        let new = json!({"keypair": {"name": self.fresh_name(), "public_key": PUBLIC_KEY}});
        self.make_as(caller, "POST", "/compute/v2.1/os-keypairs", new, "/keypair/name").await
    }

    async fn server_with(&self, more: Value) -> String {
        let mut server = json!({"name": self.fresh_name(), "flavorRef": "m1.tiny", "imageRef": self.names["public_image"],
            "networks": [{"uuid": self.names["shared_network"]}], "metadata": {"colour": "blue"}, "tags": ["blue"]});
        server.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        let id = self.make_as("member", "POST", "/compute/v2.1/servers", json!({"server": server}), "/server/id").await;
        self.rest().await;
        id
    }

    /// Removes resources that an administrator may make but the audit cannot explain: bindings of ports without a server, and allocations
    /// from the house's provider.
    pub async fn tidy(&self) {
        let used = self.tree.world.network.ports_in_use().await.expect("ports");
        // Includes ports whose only binding is inactive, which lists of ports do not show.
        for port in used.iter().filter(|port| port.server.is_none() && !port.bindings.is_empty()) {
            self.done("DELETE", &format!("/network/v2.0/ports/{}", port.id), "", Body::None).await;
        }
        let path = format!("/placement/resource_providers/{}/allocations", self.names["provider"]);
        let held = self.send_as("admin", "GET", &path, "placement 1.39", &Body::None).await.json();
        for consumer in held["allocations"].as_object().into_iter().flat_map(|held| held.keys()) {
            self.done("DELETE", &format!("/placement/allocations/{consumer}"), "placement 1.39", Body::None).await;
        }
    }

    /// Makes a further specimen of a kind, and lets its owner act on it.
    async fn acted(&self, kind: &str, action: Value) -> String {
        let id = Box::pin(self.another(kind)).await;
        let path = format!("/compute/v2.1/servers/{id}/action");
        let answer = self.send_as("member", "POST", &path, "compute 2.90", &Body::Json(action)).await;
        assert!(answer.status < 300, "{path}: {} {}", answer.status, answer.text);
        self.rest().await;
        id
    }

    /// Fills in the parameters of the row's path and body. `made` remembers new specimens, so that path, body and undo use the same ids.
    pub async fn fill(&self, row: &Row, anew: bool, made: &mut BTreeMap<String, String>) -> Filled {
        let path = self.filled(&row.path, anew, made).await;
        let about = match &row.about {
            Some(about) => Some(self.filled(about, anew, made).await),
            None => None,
        };
        let body = match &row.body {
            Body::Json(body) => {
                let text = self.filled_json(body, anew, made).await;
                Body::Json(text)
            }
            other => other.clone(),
        };
        Filled { path, body, about }
    }

    /// Fills in the parameters of a text.
    pub async fn filled(&self, text: &str, anew: bool, made: &mut BTreeMap<String, String>) -> String {
        let (mut done, mut left) = (String::new(), text);
        while let Some((before, rest)) = left.split_once('{') {
            let (parameter, after) = rest.split_once('}').expect("a parameter ends");
            done.push_str(before);
            done.push_str(&self.value_of(parameter, anew, made).await);
            left = after;
        }
        done + left
    }

    async fn value_of(&self, parameter: &str, anew: bool, made: &mut BTreeMap<String, String>) -> String {
        if let Some(text) = parameter.strip_prefix('=') {
            return text.to_owned();
        }
        if let Some(policy) = parameter.strip_prefix("rule-of:") {
            let policy = Box::pin(self.value_of(policy, anew, made)).await;
            return self.look(&format!("/network/v2.0/qos/policies/{policy}"), "/policy/rules/0/id").await;
        }
        if let Some(router) = parameter.strip_prefix("subnet-of:") {
            let router = Box::pin(self.value_of(router, anew, made)).await;
            return self.look(&format!("/network/v2.0/ports?device_id={router}"), "/ports/0/fixed_ips/0/subnet_id").await;
        }
        let Some(kind) = parameter.strip_prefix('+') else {
            return self.names.get(parameter).unwrap_or_else(|| panic!("the house has no {parameter}")).clone();
        };
        // A caller without the right asks for an existing specimen.
        if let Some(there) = self.names.get(kind).filter(|_| !anew) {
            return there.clone();
        }
        if !made.contains_key(kind) {
            let id = self.another(kind).await;
            made.insert(kind.to_owned(), id);
        }
        made[kind].clone()
    }

    async fn filled_json(&self, value: &Value, anew: bool, made: &mut BTreeMap<String, String>) -> Value {
        match value {
            Value::String(text) if text.starts_with('{') => Value::String(self.filled(text, anew, made).await),
            Value::Array(items) => {
                let mut filled = Vec::new();
                for item in items {
                    filled.push(Box::pin(self.filled_json(item, anew, made)).await);
                }
                Value::Array(filled)
            }
            Value::Object(map) => {
                let mut filled = serde_json::Map::new();
                for (key, item) in map {
                    let key = if key.starts_with('{') { self.filled(key, anew, made).await } else { key.clone() };
                    filled.insert(key, Box::pin(self.filled_json(item, anew, made)).await);
                }
                Value::Object(filled)
            }
            other => other.clone(),
        }
    }
}

fn uuid_like(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

pub const PUBLIC_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ me";
