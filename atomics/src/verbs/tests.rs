//! What needs no device.

use super::*;
