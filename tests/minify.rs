//! What shortens the scripts for nodes: a part of a build script, with its tests.

#[path = "../crates/collect/build/minify.rs"]
mod build;
