//! Which file systems are no safe place for the journal (fault G14).
//!
//! The journal needs locks that all processes see and syncs that reach the disk. File systems that another machine or another
//! process serves may give neither, and nothing tells before a night is lost.

/// The kinds that a machine elsewhere or a process serves, by the number that Linux gives each.
const SERVED: [(u64, &str); 15] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x7461_636f, "OCFS2"),
    (0xbacb_acbc, "a shared folder of a virtual machine"),
];

/// What people call the file system with this number, if a machine elsewhere or a process serves it.
pub fn served_elsewhere(number: u64) -> Option<&'static str> {
    SERVED.iter().find(|(of, _)| *of == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_this_machine_are_told_from_those_that_are_served() {
        // fault G14
        let of_this_machine =
            [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1, 0xf2f5_2010];
        for number in of_this_machine {
            assert_eq!(served_elsewhere(number), None, "{number:#x}");
        }
        for (number, name) in
            [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9p"), (0x6573_5546, "FUSE")]
        {
            assert_eq!(served_elsewhere(number), Some(name), "{number:#x}");
        }
    }
}
