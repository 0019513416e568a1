//! Which files are tests, and which files decide what a test runner does, by the conventions of each ecosystem.
//!
//! A path is judged by its words alone. What is listed too much costs one more run of the gates when it changes; what is
//! not listed can be weakened unseen.

use super::{GoalpostKind, SharedFile};

/// Folders that hold tests and what tests compare with.
const TEST_FOLDERS: &[&str] = &[
    "tests",
    "test",
    "__tests__",
    "__snapshots__",
    "__mocks__",
    "spec",
    "specs",
    "e2e",
    "cypress",
    "testdata",
    "test_data",
    "fixtures",
    "__fixtures__",
    "golden",
    "goldens",
    "expected",
    "testutil",
    "testutils",
    "testhelpers",
    "test-utils",
    "test_utils",
    "test-helpers",
    "test_helpers",
    "test-support",
    "test_support",
];

/// Names of modules that serve tests, in any folder.
const TEST_MODULES: &[&str] = &[
    "testutil",
    "testutils",
    "testhelper",
    "testhelpers",
    "test_util",
    "test_utils",
    "test_helper",
    "test_helpers",
    "test_support",
    "testing_helpers",
    "testing_utils",
];

/// Endings of files that hold code which a runner could find by itself.
const CODE: &[&str] = &[
    "rs", "py", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "go", "rb", "java", "kt", "kts",
    "scala", "groovy", "cs", "fs", "vb", "php", "swift", "c", "cc", "cpp", "cxx", "h", "hpp", "sh", "bash",
    "bats", "lua", "pl", "t", "ex", "exs", "dart", "feature", "zig",
];

/// Endings of compiled modules, which a test that imports one by its name finds beside it.
const LOADED: &[&str] = &["pyc", "pyo", "so", "pyd", "node", "class", "jar"];

/// Files that decide as a whole what a runner or a linter does, by name.
const SETTINGS: &[&str] = &[
    // Perl
    ".proverc",
    // Python
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "tox.toml",
    "conftest.py",
    ".coveragerc",
    "noxfile.py",
    "sitecustomize.py",
    "usercustomize.py",
    "ruff.toml",
    ".ruff.toml",
    ".flake8",
    "mypy.ini",
    ".mypy.ini",
    ".pylintrc",
    "pylintrc",
    "runtests.py",
    "manage.py",
    // Rust
    "rust-toolchain",
    "rust-toolchain.toml",
    "clippy.toml",
    ".clippy.toml",
    "rustfmt.toml",
    ".rustfmt.toml",
    "nextest.toml",
    // JavaScript
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "bunfig.toml",
    ".swcrc",
    ".taprc",
    "deno.json",
    "deno.jsonc",
    "biome.json",
    "setupTests.js",
    "setupTests.ts",
    "tsconfig.test.json",
    "tsconfig.spec.json",
    "turbo.json",
    "nx.json",
    // Make and its kin
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    ".justfile",
    "Taskfile.yml",
    "Taskfile.yaml",
    "Rakefile",
    "CTestTestfile.cmake",
    "CTestCustom.cmake",
    "CTestConfig.cmake",
    "CMakePresets.json",
    "meson_options.txt",
    // JVM and .NET
    "gradle.properties",
    "init.gradle",
    "Directory.Build.props",
    "Directory.Build.targets",
    "nuget.config",
    "NuGet.Config",
    "junit-platform.properties",
    "testng.xml",
    "maven.config",
    "jvm.config",
    // Others
    "go.work",
    ".golangci.yml",
    ".golangci.yaml",
    ".env.test",
    ".env.testing",
    ".rspec",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".pre-commit-config.yaml",
    ".shellcheckrc",
    ".busted",
];

/// Beginnings of the names of such files: `jest.config.ts`, `.mocharc.yaml`.
const SETTING_STEMS: &[&str] = &[
    "jest.config.",
    "jest.setup.",
    "jest-setup.",
    "vitest.config.",
    "vitest.workspace.",
    "vitest.setup.",
    "vite.config.",
    ".mocharc",
    "babel.config.",
    ".babelrc",
    "karma.conf.",
    "playwright.config.",
    "cypress.config.",
    "ava.config.",
    ".c8rc",
    ".nycrc",
    ".eslintrc",
    "eslint.config.",
    ".prettierrc",
    "prettier.config.",
    "wdio.conf.",
    "web-test-runner.config.",
];

/// Names under which a runner's own modules, a test library or a header of assertions would be found in the workspace first.
pub const SHADOWS: &[&str] = &[
    "pytest",
    "_pytest",
    "unittest",
    "pluggy",
    "iniconfig",
    "doctest",
    "nose",
    "nose2",
    "hypothesis",
    "coverage",
    "xdist",
    "pytest_cov",
    "mock",
    "tox",
    "nox",
    "exceptiongroup",
    "tomli",
    "traceback",
    "_pytest_assertion",
    "packaging",
    "attr",
    "attrs",
    "pygments",
];
/// Modules that pytest is made of: among the packages in the home folder they come before those of the system.
pub const RUNNER_PARTS: &[&str] = &[
    "pytest",
    "_pytest",
    "py",
    "pluggy",
    "iniconfig",
    "packaging",
    "exceptiongroup",
    "tomli",
    "attr",
    "attrs",
    "pygments",
];
/// Modules of Python's standard library, on which its test runners rest.
const STANDARD_MODULES: &[&str] = &[
    "__future__",
    "_abc",
    "_aix_support",
    "_ast",
    "_asyncio",
    "_bisect",
    "_blake2",
    "_bootsubprocess",
    "_bz2",
    "_codecs",
    "_codecs_cn",
    "_codecs_hk",
    "_codecs_iso2022",
    "_codecs_jp",
    "_codecs_kr",
    "_codecs_tw",
    "_collections",
    "_collections_abc",
    "_compat_pickle",
    "_compression",
    "_contextvars",
    "_crypt",
    "_csv",
    "_ctypes",
    "_curses",
    "_curses_panel",
    "_datetime",
    "_dbm",
    "_decimal",
    "_elementtree",
    "_frozen_importlib",
    "_frozen_importlib_external",
    "_functools",
    "_gdbm",
    "_hashlib",
    "_heapq",
    "_imp",
    "_io",
    "_json",
    "_locale",
    "_lsprof",
    "_lzma",
    "_markupbase",
    "_md5",
    "_msi",
    "_multibytecodec",
    "_multiprocessing",
    "_opcode",
    "_operator",
    "_osx_support",
    "_overlapped",
    "_pickle",
    "_posixshmem",
    "_posixsubprocess",
    "_py_abc",
    "_pydatetime",
    "_pydecimal",
    "_pyio",
    "_pylong",
    "_queue",
    "_random",
    "_sha1",
    "_sha2",
    "_sha256",
    "_sha3",
    "_sha512",
    "_signal",
    "_sitebuiltins",
    "_socket",
    "_sqlite3",
    "_sre",
    "_ssl",
    "_stat",
    "_statistics",
    "_string",
    "_strptime",
    "_struct",
    "_symtable",
    "_thread",
    "_threading_local",
    "_tkinter",
    "_tokenize",
    "_tracemalloc",
    "_typing",
    "_uuid",
    "_warnings",
    "_weakref",
    "_weakrefset",
    "_winapi",
    "_zoneinfo",
    "abc",
    "argparse",
    "ast",
    "asyncio",
    "atexit",
    "base64",
    "bdb",
    "binascii",
    "bisect",
    "builtins",
    "bz2",
    "calendar",
    "cmd",
    "code",
    "codecs",
    "codeop",
    "collections",
    "colorsys",
    "contextlib",
    "contextvars",
    "copy",
    "copyreg",
    "csv",
    "ctypes",
    "curses",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "email",
    "encodings",
    "enum",
    "errno",
    "faulthandler",
    "fnmatch",
    "fractions",
    "functools",
    "gc",
    "genericpath",
    "getopt",
    "getpass",
    "gettext",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http",
    "importlib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "marshal",
    "math",
    "mimetypes",
    "multiprocessing",
    "ntpath",
    "numbers",
    "opcode",
    "operator",
    "optparse",
    "os",
    "pathlib",
    "pdb",
    "pickle",
    "pkgutil",
    "platform",
    "posixpath",
    "pprint",
    "queue",
    "quopri",
    "random",
    "re",
    "reprlib",
    "runpy",
    "select",
    "selectors",
    "shlex",
    "shutil",
    "signal",
    "site",
    "socket",
    "sre_compile",
    "sre_constants",
    "sre_parse",
    "ssl",
    "stat",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "symtable",
    "sys",
    "sysconfig",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "token",
    "tokenize",
    "traceback",
    "tracemalloc",
    "types",
    "typing",
    "unicodedata",
    "urllib",
    "uuid",
    "warnings",
    "weakref",
    "xml",
    "zipfile",
    "zipimport",
    "zlib",
];
const SHADOW_HEADERS: &[&str] = &[
    "assert.h",
    "stdio.h",
    "stdlib.h",
    "stddef.h",
    "stdint.h",
    "stdbool.h",
    "stdarg.h",
    "stdalign.h",
    "stdatomic.h",
    "stdnoreturn.h",
    "alloca.h",
    "complex.h",
    "endian.h",
    "fenv.h",
    "float.h",
    "inttypes.h",
    "iso646.h",
    "locale.h",
    "math.h",
    "strings.h",
    "tgmath.h",
    "threads.h",
    "time.h",
    "uchar.h",
    "wchar.h",
    "wctype.h",
    "string.h",
    "errno.h",
    "limits.h",
    "ctype.h",
    "setjmp.h",
    "signal.h",
    "unistd.h",
    "features.h",
    "features-time64.h",
    "stdc-predef.h",
    "cdefs.h",
    "cassert",
    "check.h",
    "cmocka.h",
    "unity.h",
    "gtest.h",
    "catch.hpp",
    "doctest.h",
    "minunit.h",
    "criterion.h",
];
/// Packages in `node_modules` that run tests or compare.
pub const SHADOW_PACKAGES: &[&str] = &[
    "jest",
    "vitest",
    "mocha",
    "chai",
    "assert",
    "ava",
    "tap",
    "tape",
    "expect",
    "jasmine",
    "sinon",
    "@jest",
    "@vitest",
    "node:test",
    ".bin",
];

/// What the file at `path`, from the top of the workspace, is to the gates; `None` if it is work like any other.
pub fn kind_of(path: &str) -> Option<GoalpostKind> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    if folders.split('/').any(|folder| matches!(folder, ".git" | ".dacapo")) {
        return None;
    }
    if let Some(shared) = SharedFile::of_name(name) {
        return Some(GoalpostKind::Keys(shared));
    }
    if is_setting(folders, name) {
        return Some(GoalpostKind::Setting);
    }
    if is_test(folders, name) {
        return Some(GoalpostKind::Test);
    }
    if is_shadow(folders, name) {
        return Some(GoalpostKind::Shadow);
    }
    name.ends_with(".rs").then_some(GoalpostKind::Keys(SharedFile::RustSource))
}

/// What decides in a file that is work: the examples in its documentation, which runners may run.
pub fn kind_of_work(path: &str) -> Option<GoalpostKind> {
    path.ends_with(".py").then_some(GoalpostKind::Keys(SharedFile::PythonSource))
}

/// Whether discovery of unittest loads the file at `path`, which is no test by its name: `testall.py`.
pub fn is_loaded_by_unittest(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test"))
}

fn is_setting(folders: &str, name: &str) -> bool {
    let folder = folders.rsplit('/').next().unwrap_or_default();
    SETTINGS.contains(&name)
        || SETTING_STEMS.iter().any(|stem| name.starts_with(stem))
        || (folder == ".cargo" && matches!(name, "config" | "config.toml"))
        || (folder == ".mvn" && name.ends_with(".xml"))
        || name.ends_with(".pth")
        || name.ends_with(".mk")
        || name.ends_with(".runsettings")
        || name.ends_with("Tests.csproj")
        || name.ends_with("Test.csproj")
}

fn is_test(folders: &str, name: &str) -> bool {
    // The product's own sources of a JVM project may have a package called `test`.
    let in_test_folder =
        !folders.contains("src/main/") && folders.split('/').any(|folder| TEST_FOLDERS.contains(&folder));
    in_test_folder || is_test_name(name)
}

fn is_test_name(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let any_of = |endings: &[&str]| endings.iter().any(|ending| stem.ends_with(ending));
    if CODE.contains(&extension) {
        let module = stem.to_ascii_lowercase().replace('-', "_");
        if TEST_MODULES.contains(&module.as_str()) {
            return true;
        }
    }
    match extension {
        "golden" | "expected" => true,
        "txt" | "json" | "html" | "md" if stem.ends_with(".approved") => true,
        "py" => {
            stem.starts_with("test_") || stem == "test" || stem == "tests" || any_of(&["_test", "_tests"])
        }
        "rs" => stem == "tests" || stem == "test" || any_of(&["_test", "_tests"]),
        "go" | "dart" | "exs" | "zig" => stem.ends_with("_test"),
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" => {
            stem == "test"
                || stem.starts_with("test-")
                || any_of(&[".test", ".spec", ".tests", ".cy", ".e2e", "-test", "-spec", "_test", "_spec"])
        }
        "rb" | "lua" => stem.starts_with("test_") || any_of(&["_test", "_spec"]),
        "java" | "kt" | "scala" | "groovy" | "cs" | "fs" | "vb" | "php" | "swift" => {
            any_of(&["Test", "Tests", "IT", "Spec", "Specs", "TestCase"]) || stem.starts_with("Test")
        }
        "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" | "sh" | "bash" | "pl" => {
            stem == "test"
                || stem == "tests"
                || stem.starts_with("test_")
                || any_of(&["_test", "_tests", "-test"])
        }
        "bats" | "t" | "feature" | "snap" => true,
        _ => false,
    }
}

/// Whether a file would be taken instead of a part of the test runner.
fn is_shadow(folders: &str, name: &str) -> bool {
    // Headers of the system include those below `bits` and `gnu`.
    let folder = folders.rsplit('/').next().unwrap_or_default();
    if SHADOW_HEADERS.contains(&name) || (matches!(folder, "bits" | "gnu") && name.ends_with(".h")) {
        return true;
    }
    // Python looks at the top of the workspace first. Deeper, a module of such a name is a part of its package.
    let is_python = [".py", ".pyc", ".so"].iter().any(|end| name.ends_with(end));
    let module = folders.split('/').next().filter(|first| !first.is_empty());
    let module = module.unwrap_or_else(|| name.split('.').next().unwrap_or(name));
    if is_python && (SHADOWS.contains(&module) || STANDARD_MODULES.contains(&module)) {
        return true;
    }
    // Perl takes its runner from the first folder of modules that has it.
    let is_perl = |end: &str| format!("{folders}/{name}").ends_with(&format!("/{end}"));
    if ["Test/More.pm", "Test/Simple.pm", "Test/Builder.pm", "Test2/API.pm", "TAP/Harness.pm"]
        .into_iter()
        .any(is_perl)
    {
        return true;
    }
    let mut above = "";
    folders.split('/').any(|folder| {
        let is_package = above == "node_modules" && SHADOW_PACKAGES.contains(&folder);
        above = folder;
        is_package
    })
}

/// Whether a runner finds this file by itself, so that it takes part in the gates as soon as it is there. A Rust file among
/// the sources takes part only if another file names it, and data only if a test reads it.
pub fn is_discovered(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name.rsplit_once('.') {
        Some((_, "rs")) => {
            let mut parts = folders.split('/');
            parts.clone().any(|folder| folder == "tests") && !parts.any(|folder| folder == "src")
        }
        Some((_, extension)) => CODE.contains(&extension) || LOADED.contains(&extension),
        None => false,
    }
}

/// The test whose snapshots jest or vitest keeps in the file at `path`.
pub fn test_of_snapshots(path: &str) -> Option<String> {
    let (folders, name) = path.rsplit_once('/')?;
    let test = name.strip_suffix(".snap")?;
    let above = folders.strip_suffix("__snapshots__")?;
    Some(format!("{above}{test}"))
}

/// Folders that no tests of the project are in: what tools install, build and keep.
pub fn is_left_out(folder: &str) -> bool {
    const NAMES: &[&str] = &[
        ".git",
        ".hg",
        ".svn",
        ".dacapo",
        "node_modules",
        "target",
        ".venv",
        "venv",
        "__pycache__",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".gradle",
        ".cache",
        ".next",
        ".turbo",
        ".idea",
        ".vscode",
    ];
    NAMES.contains(&folder)
}

/// Names that are looked for in the folders above the workspace and above a checkout: a tool that finds one there follows it.
pub const ABOVE: &[&str] = &[
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "conftest.py",
    ".cargo/config",
    ".cargo/config.toml",
    "Cargo.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "clippy.toml",
    ".clippy.toml",
    "rustfmt.toml",
    ".rustfmt.toml",
    "package.json",
    ".npmrc",
    "go.work",
    "go.mod",
    "jest.config.js",
    "jest.config.ts",
    "vitest.config.ts",
    "vitest.config.js",
    "vite.config.ts",
    "vite.config.js",
    ".mocharc.js",
    ".mocharc.json",
    ".mocharc.yml",
    ".mocharc.yaml",
    ".mocharc.cjs",
    "babel.config.js",
    "babel.config.json",
    ".babelrc",
    "bunfig.toml",
    ".yarnrc",
    ".yarnrc.yml",
    "pnpm-workspace.yaml",
    "settings.gradle",
    "settings.gradle.kts",
    "Directory.Build.props",
    "Directory.Build.targets",
    "global.json",
    "nuget.config",
    "NuGet.Config",
    "tsconfig.json",
    ".coveragerc",
    "node_modules",
    "justfile",
    ".justfile",
    ".python-version",
    ".tool-versions",
    ".nvmrc",
    "mise.toml",
    ".mise.toml",
];

/// Files in the user's home folder that tools follow.
pub const IN_HOME: &[&str] = &[
    ".cargo/config",
    ".cargo/config.toml",
    ".rustup/settings.toml",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".bunfig.toml",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".pydistutils.cfg",
    ".config/uv/uv.toml",
    ".gradle/gradle.properties",
    ".gradle/init.gradle",
    ".gradle/init.gradle.kts",
    ".gradle/init.d",
    ".m2/settings.xml",
    ".mavenrc",
    ".m2/extensions.xml",
    ".nuget/NuGet/NuGet.Config",
    ".config/go/env",
    ".coveragerc",
    ".mocharc.json",
    ".mocharc.js",
    ".mocharc.yml",
    ".babelrc",
    ".pnpmfile.cjs",
    ".config/pnpm/rc",
    ".config/nextest.toml",
    ".justfile",
    ".makerc",
    ".pythonrc.py",
    ".pytest.ini",
    ".config/just/justfile",
    ".shellcheckrc",
    ".config/ruff/ruff.toml",
    ".config/flake8",
    ".config/mypy/config",
];

/// Files in the user's home folder that a shell reads first, if it is one of a login or of a terminal.
pub const PROFILES: &[&str] = &[
    ".profile",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bashrc",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".zlogin",
    ".kshrc",
];

/// Whether a command starts a shell that reads the user's profiles: `bash -lc 'make test'`.
pub fn starts_with_profiles(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let name = pair[0].rsplit('/').next().unwrap_or_default();
        match name {
            // It reads one whatever its options are.
            "zsh" => true,
            "sh" | "bash" | "dash" | "ksh" => {
                let option = pair[1];
                matches!(option, "--login" | "--rcfile" | "--init-file")
                    || (option.starts_with('-') && !option.starts_with("--") && option.contains(['l', 'i']))
            }
            _ => false,
        }
    })
}
