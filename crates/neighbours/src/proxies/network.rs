//! Networks, floating IPs and security groups, for `/os-networks`, `/os-floating-ips` and `/os-security-groups` of the compute API.

use async_trait::async_trait;
use uuid::Uuid;

use crate::ServiceError;
use crate::network::{Network, Scope};

/// A floating IP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FloatingIp {
    pub id: Uuid,
    pub project_id: String,
    /// The external network that the address is taken from.
    pub network_id: Uuid,
    pub address: String,
    /// The address that it leads to.
    pub fixed_address: Option<String>,
    /// The device that has the port to which it leads; none if it leads nowhere or nobody has the port.
    pub device_id: Option<String>,
}

/// A security group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecurityGroup {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    pub project_id: String,
    pub rules: Vec<SecurityGroupRule>,
}

/// A rule of a security group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecurityGroupRule {
    pub id: Uuid,
    pub security_group_id: Uuid,
    /// True for incoming traffic.
    pub is_ingress: bool,
    /// None for all protocols.
    pub protocol: Option<String>,
    pub port_range_min: Option<i32>,
    pub port_range_max: Option<i32>,
    pub remote_ip_prefix: Option<String>,
    pub remote_group_id: Option<Uuid>,
}

/// A rule for incoming traffic to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSecurityGroupRule {
    pub security_group_id: Uuid,
    /// The group's project.
    pub project_id: String,
    pub is_ipv6: bool,
    /// The protocol with its lowest and highest port, or type and code; none for all protocols.
    pub protocol: Option<(String, Option<i32>, Option<i32>)>,
    pub remote_ip_prefix: Option<String>,
    pub remote_group_id: Option<Uuid>,
}

/// The network service's interface for the compute API's proxies.
#[async_trait]
pub trait NetworkProxy: Send + Sync {
    /// Returns the networks that the caller may use, external ones among them, oldest first.
    async fn usable_networks(&self, scope: Scope) -> Result<Vec<Network>, ServiceError>;
    /// Returns a network that the caller may use.
    async fn usable_network(&self, scope: Scope, id: Uuid) -> Result<Network, ServiceError>;
    /// Returns the floating IPs that the caller may see, oldest first.
    async fn visible_floating_ips(&self, scope: Scope) -> Result<Vec<FloatingIp>, ServiceError>;
    /// Returns a floating IP that the caller may see.
    async fn visible_floating_ip(&self, scope: Scope, id: Uuid) -> Result<FloatingIp, ServiceError>;
    /// Takes any free address of an external network as a floating IP for the caller's project. Conflict if none is free or, with the code
    /// [`ReasonCode::QuotaExceeded`](cellshift_domain::reason::ReasonCode), if the project may have no more.
    async fn take_floating_ip(&self, scope: Scope, network: Uuid) -> Result<FloatingIp, ServiceError>;
    /// Gives a floating IP's address back.
    async fn release_floating_ip(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError>;
    /// Returns the security groups that the caller may see, with their rules, oldest first. The default group of the caller's project is
    /// always there.
    async fn visible_security_groups(&self, scope: Scope) -> Result<Vec<SecurityGroup>, ServiceError>;
    /// Makes a security group without rules for incoming traffic. Invalid or conflict if the name is refused; beyond the quota a conflict
    /// with the code [`ReasonCode::QuotaExceeded`](cellshift_domain::reason::ReasonCode).
    async fn make_security_group(&self, scope: Scope, name: &str, description: &str) -> Result<SecurityGroup, ServiceError>;
    /// Renames and describes a security group. Conflict for a default group's name.
    async fn rename_security_group(&self, scope: Scope, id: Uuid, name: &str, description: &str) -> Result<SecurityGroup, ServiceError>;
    /// Removes a security group. Conflict while a port has it, and for a default group.
    async fn remove_security_group(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError>;
    /// Adds a rule. Conflict if the group has an equal rule; beyond the quota a conflict as for a group.
    async fn add_security_group_rule(&self, scope: Scope, rule: NewSecurityGroupRule) -> Result<SecurityGroupRule, ServiceError>;
    /// Removes a rule.
    async fn remove_security_group_rule(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError>;
}
