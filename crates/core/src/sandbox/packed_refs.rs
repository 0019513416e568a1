//! The refs that agents see, in one list.

/// A list of refs as git packs them: those of `packed`, which is such a list, and the names and ids of `loose`, which count where
/// both have a name.
///
/// One file in the place of one for each ref: a repository may have thousands, and every loop in a worktree gets a copy.
pub fn packed_refs(packed: &[u8], mut loose: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    // A line that begins with `^` says which commit the tag above it stands for, and stays with it.
    let mut listed: Vec<(&[u8], [&[u8]; 2])> = Vec::new();
    for line in packed.split_inclusive(|byte| *byte == b'\n') {
        match (name_in(line), listed.last_mut()) {
            (Some(name), _) => listed.push((name, [line, b""])),
            (None, Some((_, [_, commit]))) if line.starts_with(b"^") => *commit = line,
            (None, _) => {}
        }
    }
    listed.sort();
    loose.sort();
    // What git may rely on: there is no word that every tag is followed by its commit.
    let mut list = b"# pack-refs with: sorted \n".to_vec();
    let mut loose = loose.into_iter().peekable();
    for (name, lines) in listed {
        while let Some((own, id)) = loose.next_if(|(own, _)| own.as_slice() < name) {
            push(&mut list, &id, &own);
        }
        if loose.peek().is_none_or(|(own, _)| own.as_slice() != name) {
            list.extend(lines.concat());
        }
    }
    loose.for_each(|(name, id)| push(&mut list, &id, &name));
    list
}

/// The name in the line of a ref. A last line without an end is none, since git ends each.
fn name_in(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n")?;
    let space = line.iter().position(|byte| *byte == b' ')?;
    Some(&line[space + 1..]).filter(|name| name.starts_with(b"refs/"))
}

fn push(list: &mut Vec<u8>, id: &[u8], name: &[u8]) {
    list.extend(id);
    list.push(b' ');
    list.extend(name);
    list.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(packed: &str, loose: &[(&str, &str)]) -> String {
        let loose = loose.iter().map(|(name, id)| (name.as_bytes().to_vec(), id.as_bytes().to_vec()));
        String::from_utf8(packed_refs(packed.as_bytes(), loose.collect())).unwrap()
    }

    #[test]
    fn loose_refs_count_before_packed_ones_and_all_are_in_the_order_of_names() {
        let head = "# pack-refs with: sorted \n";
        let old = "# pack-refs with: peeled fully-peeled sorted \n";
        type Loose = &'static [(&'static str, &'static str)];
        let cases: [(&str, Loose, &str); 7] = [
            ("", &[], ""),
            ("", &[("refs/heads/b", "2"), ("refs/heads/a", "1")], "1 refs/heads/a\n2 refs/heads/b\n"),
            ("1 refs/heads/a\n", &[("refs/heads/a", "9")], "9 refs/heads/a\n"),
            (
                "1 refs/heads/a\n3 refs/heads/c\n",
                &[("refs/heads/b", "2")],
                "1 refs/heads/a\n2 refs/heads/b\n3 refs/heads/c\n",
            ),
            ("5 refs/tags/v\n^6\n1 refs/heads/a\n", &[], "1 refs/heads/a\n5 refs/tags/v\n^6\n"),
            ("5 refs/tags/v\n^6\n", &[("refs/tags/v", "8")], "8 refs/tags/v\n"),
            ("^6\nno line of a ref\n1 refs/heads/a\n7 refs/tags/cut", &[], "1 refs/heads/a\n"),
        ];
        for (packed, loose, expected) in cases {
            assert_eq!(together(&format!("{old}{packed}"), loose), format!("{head}{expected}"), "{packed:?}");
        }
    }
}
