//! Tests in JavaScript and TypeScript: calls of `test`, `it` and their like with a title.

use super::{
    Test,
    body::Body,
    source::{Language, SourceCode, is_word},
};

/// A group of tests: where it ends, why it is skipped, whether only it runs.
struct Group {
    end: usize,
    skipped: Option<String>,
    only: bool,
}

/// A call of a test function.
struct Call {
    is_group: bool,
    skipped: Option<String>,
    inverted: Option<String>,
    only: bool,
    open: usize,
    close: usize,
}

/// The tests in `text`.
pub(super) fn tests(text: &str) -> Vec<Test> {
    let source = SourceCode::new(text, Language::JavaScript);
    let mut tests: Vec<(Test, bool)> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut at = 0;
    while at < source.code.len() {
        groups.retain(|group| at <= group.end);
        if !is_word(source.code[at]) {
            at += 1;
            continue;
        }
        let word_len = source.word(at).len().max(1);
        let is_method = at > 0 && matches!(source.code[at - 1], b'.' | b'$');
        let Some(call) = (!is_method).then(|| call(&source, at)).flatten() else {
            at += word_len;
            continue;
        };
        let outer = groups.iter().find_map(|group| group.skipped.clone());
        let only = call.only || groups.iter().any(|group| group.only);
        if call.is_group {
            groups.push(Group { end: call.close, skipped: call.skipped, only: call.only });
            at = call.open + 1;
        } else {
            let mut test = test(&source, &call);
            test.skipped = test.skipped.or(outer);
            tests.push((test, only));
            at = call.close;
        }
    }
    if tests.iter().any(|(_, only)| *only) {
        for (test, _) in tests.iter_mut().filter(|(_, only)| !only) {
            test.skipped.get_or_insert_with(|| "only those with `.only` run".to_owned());
        }
    }
    tests.into_iter().map(|(test, _)| test).collect()
}

/// The call of a test function that begins at `at`.
fn call(source: &SourceCode<'_>, at: usize) -> Option<Call> {
    let name = source.word(at);
    let (is_group, mut skipped, mut only) = match name {
        "test" | "it" | "specify" => (false, None, false),
        "xit" | "xtest" | "xspecify" => (false, Some(format!("`{name}`")), false),
        "fit" | "ftest" => (false, None, true),
        "describe" | "suite" | "context" => (true, None, false),
        "xdescribe" | "xcontext" => (true, Some(format!("`{name}`")), false),
        "fdescribe" => (true, None, true),
        _ => return None,
    };
    let mut inverted = None;
    let mut is_group = is_group;
    let mut next = at + name.len();
    loop {
        next = source.skip_white(next);
        match source.code.get(next)? {
            b'.' => {
                let modifier = source.word(source.skip_white(next + 1).min(source.code.len()));
                match modifier {
                    "skip" | "todo" | "skipIf" | "runIf" | "fixme" => {
                        skipped = Some(format!("`.{modifier}`"));
                    }
                    "only" => only = true,
                    "failing" | "fails" | "fail" => inverted = Some(format!("`.{modifier}`")),
                    // Playwright's groups.
                    "describe" => is_group = true,
                    "each" | "concurrent" | "sequential" | "parallel" | "serial" | "for" | "extend" => {}
                    _ => return None,
                }
                next = source.skip_white(next + 1) + modifier.len();
            }
            // The table of `each`, written as a template.
            b'`' => next += 2 + source.code[next + 1..].iter().position(|byte| *byte == b'`')?,
            b'(' => {
                let close = source.closing(next);
                let title = source.code.get(source.skip_white(next + 1))?;
                let after = source.skip_white((close + 1).min(source.code.len()));
                if source.code.get(after) == Some(&b'(') {
                    // The table of `each`, the condition of `skipIf`.
                    next = close + 1;
                    continue;
                }
                let has_title = matches!(title, b'"' | b'\'' | b'`');
                return (has_title || is_group).then_some(Call {
                    is_group,
                    skipped,
                    inverted,
                    only,
                    open: next,
                    close,
                });
            }
            _ => return None,
        }
    }
}

fn test(source: &SourceCode<'_>, call: &Call) -> Test {
    let title = source.skip_white(call.open + 1);
    let quote = source.code[title];
    let title_end = source.code[title + 1..].iter().position(|byte| *byte == quote);
    let title_end = title_end.map_or(call.close, |end| title + 1 + end);
    let name = source.text_between(title + 1, title_end).to_owned();
    let rest = source.code_between(title_end + 1, call.close);
    let function =
        ["=>", "function"].iter().filter_map(|sign| rest.find(sign).map(|at| (at, sign.len()))).min();
    let mut skipped = call.skipped.clone();
    let Some((sign, sign_len)) = function else {
        // A title alone is a test yet to be written; another argument may be a function with a name.
        if rest.trim_matches([' ', ',', '\n', '\t', '\r']).is_empty() {
            skipped.get_or_insert_with(|| "it has no body".to_owned());
        }
        let body = Body::new(source.text_between(title_end + 1, call.close), &format!("check {rest}"));
        return Test { name, skipped, inverted: call.inverted.clone(), body };
    };
    let options: String = rest[..sign].split_whitespace().collect();
    if options.contains("skip:") || options.contains("todo:") {
        skipped.get_or_insert_with(|| "`skip` among its options".to_owned());
    }
    let from = title_end + 1 + sign + sign_len;
    let (start, end) = match source.code[from..call.close].iter().position(|byte| *byte == b'{') {
        // An arrow's body without braces is what stands behind the arrow.
        Some(brace) if source.code_between(from, from + brace).trim().is_empty() || sign_len > 2 => {
            (from + brace + 1, source.closing(from + brace))
        }
        _ => (from, call.close),
    };
    let code = source.code_between(start, end);
    let skips = ["this.skip(", "test.skip(", "t.skip(", "ctx.skip(", "context.skip("];
    if let Some(skip) = skips.iter().find(|skip| code.contains(**skip)) {
        skipped.get_or_insert_with(|| format!("`{skip})`"));
    }
    let body = Body::new(source.text_between(start, end), &code);
    Test { name, skipped, inverted: call.inverted.clone(), body }
}
