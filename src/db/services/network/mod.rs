//! The records of networks, subnets, ports and their bindings, security groups and QoS policies.
