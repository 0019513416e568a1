//! Who has the port that we want.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
};

use dacapo_core::text::ansi::readable;

use crate::ServeError;

/// How many ports behind the one that is wanted are tried.
const NEIGHBOURS: u16 = 20;

/// The error for a port that is taken: by whom, and which one is free.
pub(crate) fn in_use(address: SocketAddr) -> ServeError {
    let above = (1..=NEIGHBOURS).filter_map(|step| address.port().checked_add(step));
    let is_free = |port: &u16| TcpListener::bind(SocketAddr::new(address.ip(), *port)).is_ok();
    ServeError::PortInUse { address, by: holder(address.port()), free: above.into_iter().find(is_free) }
}

/// The process that listens on `port`, as far as `/proc` shows it.
fn holder(port: u16) -> Option<String> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets: Vec<String> = tables
        .iter()
        .flat_map(|table| listening(table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32| {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        links
            .filter_map(|link| fs::read_link(link.path()).ok())
            .any(|target| target.to_str().is_some_and(|target| sockets.iter().any(|socket| socket == target)))
    };
    let pid = pids.into_iter().find(holds)?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<u8> = command.into_iter().map(|b| if b == 0 { b' ' } else { b }).take(80).collect();
    let words = readable(&words);
    Some(format!("process {pid}, `{}`", words.trim()))
}

/// The inodes of the sockets that listen on `port`, in a table of `/proc/net`.
fn listening(table: &str, port: u16) -> Vec<&str> {
    const LISTENS: &str = "0A";
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (local, _, state) = (words.next()?, words.next()?, words.next()?);
            let own = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
            (own == port && state == LISTENS).then(|| words.nth(5)).flatten()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1C3B 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1C3B 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0";

    #[test]
    fn only_the_socket_that_listens_counts() {
        assert_eq!(listening(TABLE, 0x1c3b), ["4711"]);
        assert_eq!(listening(TABLE, 22), ["4713"]);
        assert!(listening(TABLE, 80).is_empty());
    }

    #[test]
    fn this_process_is_found_by_its_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let by = holder(port).unwrap();
        assert!(by.starts_with(&format!("process {}, ", std::process::id())), "{by}");
    }
}
