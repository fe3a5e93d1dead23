//! The calls of the compute API's proxies: resources of the image, network and volume services that old microversions of the compute API
//! serve in the name of its user. Every call carries the user's rights or project, and a thing that the user may not see is missing.

mod image;
mod network;
mod volume;

pub use crate::network::Scope;
pub use image::{ImageProxy, ImageSelection, PropertyChange};
pub use network::{FloatingIp, NetworkProxy, NewSecurityGroupRule, SecurityGroup, SecurityGroupRule};
pub use volume::VolumeProxy;
