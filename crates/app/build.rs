//! How the binary is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        // At a fixed address nothing of the binary has to be relocated when it starts: supervisors and keepers of all loops
        // share those pages, 180 KB each, and start sooner. Libraries, heap and stack stay where chance puts them.
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
