//! pinned
