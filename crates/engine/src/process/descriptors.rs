//! Descriptors that the caller of dacapo left open are its own business, and none of an agent's or a gate's.

/// Lets no descriptor but the standard three be inherited by what this process starts. They stay open here: a prompt can be read
/// from `/dev/fd/N`.
pub fn keep_to_this_process() {
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
}
