//! assumptions
