//! The devices of a node, shared by its snapshots until they change.

use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::Arc;

use gtop_model::Device;

/// A list of devices that a clone shares. A change copies it first if it is shared.
#[derive(Clone, Debug, Default)]
pub struct DeviceList(Arc<Vec<Device>>);

impl Deref for DeviceList {
    type Target = Vec<Device>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for DeviceList {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Vec<Device>> for DeviceList {
    fn from(list: Vec<Device>) -> Self {
        Self(Arc::new(list))
    }
}

impl FromIterator<Device> for DeviceList {
    fn from_iter<I: IntoIterator<Item = Device>>(devices: I) -> Self {
        Vec::from_iter(devices).into()
    }
}

impl<'a> IntoIterator for &'a DeviceList {
    type Item = &'a Device;
    type IntoIter = slice::Iter<'a, Device>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut DeviceList {
    type Item = &'a mut Device;
    type IntoIter = slice::IterMut<'a, Device>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
