//! Which files and folders matter to whom, by name.

use std::path::PathBuf;

/// What the names depend on.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The user's home, if there is one.
    pub home: Option<PathBuf>,
    /// Where configuration lies, `$XDG_CONFIG_HOME` or `~/.config`.
    pub config: Option<PathBuf>,
    /// `$XDG_DATA_HOME` or `~/.local/share`.
    pub data: Option<PathBuf>,
    /// `$XDG_STATE_HOME` or `~/.local/state`.
    pub state: Option<PathBuf>,
    /// `$CARGO_HOME`, `$RUSTUP_HOME` and their like, if they are set: a folder with the names below it that are protected.
    pub moved: Vec<(PathBuf, &'static [&'static str])>,
    /// Files that `$NPM_CONFIG_USERCONFIG`, `$GIT_CONFIG_GLOBAL` and other variables name.
    pub named: Vec<PathBuf>,
    /// Those of them that shells read when they start.
    pub startup: Vec<PathBuf>,
    /// Those of them with settings of git.
    pub git_settings: Vec<PathBuf>,
    pub is_root: bool,
}

/// Paths by what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Must not be written.
    pub protected: Vec<PathBuf>,
    /// Must not appear while they are not there, and not be written if they are: each is held by a file while a loop runs.
    pub held: Vec<PathBuf>,
    /// Folders that must not appear, as above.
    pub held_folders: Vec<PathBuf>,
    /// The same where a tool is installed that reads them.
    pub held_folders_of: Vec<(PathBuf, &'static str)>,
    /// Among the protected: what shells read, which take in other files by their words.
    pub startup: Vec<PathBuf>,
    /// The same of git.
    pub git_settings: Vec<PathBuf>,
    /// Hold credentials of other tools.
    pub credentials: Vec<PathBuf>,
}

/// What shells read when they start.
const STARTUP: [&str; 20] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".inputrc",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".bash_completion",
    ".pam_environment",
    ".xsessionrc",
    ".xprofile",
];

/// What tools that gates run read, and what begins at a login, in the user's home.
const TOOLS: [&str; 106] = [
    ".gitconfig",
    ".gitattributes_global",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".bunfig.toml",
    ".pnpmrc",
    ".nvmrc",
    ".pip",
    ".pydistutils.cfg",
    ".pypirc",
    ".condarc",
    ".pythonrc.py",
    ".pythonstartup",
    ".local/lib",
    ".cargo/config.toml",
    ".cargo/config",
    ".cargo/env",
    ".cargo/bin",
    ".rustup/settings.toml",
    ".rustfmt.toml",
    ".gradle/init.gradle",
    ".gradle/init.gradle.kts",
    ".gradle/init.d",
    ".gradle/gradle.properties",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".mavenrc",
    ".sbtopts",
    ".bazelrc",
    ".bundle/config",
    ".gemrc",
    ".rspec",
    ".irbrc",
    ".composer/composer.json",
    ".eslintrc",
    ".eslintrc.json",
    ".prettierrc",
    ".babelrc",
    ".editorconfig",
    ".curlrc",
    ".wgetrc",
    ".ssh",
    ".gnupg/gpg.conf",
    ".pylintrc",
    ".mypy.ini",
    ".gdbinit",
    ".lldbinit",
    ".sqliterc",
    ".psqlrc",
    ".tmux.conf",
    ".screenrc",
    ".vimrc",
    ".emacs",
    ".xinitrc",
    ".xsession",
    ".nvm/nvm.sh",
    ".oh-my-zsh",
    ".asdfrc",
    ".tool-versions",
    ".node_modules",
    ".node_libraries",
    ".Rprofile",
    ".Renviron",
    ".julia/config",
    ".ipython/profile_default/startup",
    ".pdbrc",
    ".hgrc",
    ".lein/profiles.clj",
    ".clojure/deps.edn",
    ".sbt",
    ".stack/config.yaml",
    ".cabal/config",
    ".ghci",
    ".iex.exs",
    ".ccache/ccache.conf",
    ".terraformrc",
    ".ansible.cfg",
    ".docker/cli-plugins",
    ".kube/config",
    ".aws/config",
    ".gnupg/gpg-agent.conf",
    ".forward",
    ".docker/config.json",
    ".bash_it",
    ".oh-my-bash",
    ".bashrc.d",
    ".zshrc.d",
    ".zim",
    ".zinit",
    ".zplug",
    ".zprezto",
    ".antigen",
    ".asdf/asdf.sh",
    ".asdf/plugins",
    ".sdkman/bin",
    ".rvm/scripts",
    ".pyenv/plugins",
    ".rbenv/plugins",
    ".vim",
    ".emacs.d",
    ".spacemacs",
    ".wezterm.lua",
    ".vscode/extensions",
    ".vscode-server/extensions",
    ".cursor/extensions",
];

/// The same in the folder of configuration.
const CONFIGURED: [&str; 62] = [
    "dacapo",
    "fish",
    "git",
    "pip",
    "uv",
    "npm",
    "yarn",
    "pnpm",
    "go",
    "nextest",
    "rustfmt",
    "pypoetry",
    "pycodestyle",
    "flake8",
    "mypy",
    "ruff",
    "composer",
    "systemd",
    "autostart",
    "environment.d",
    "direnv",
    "zsh",
    "nushell",
    "elvish",
    "powershell",
    "pylintrc",
    "mise",
    "tmux",
    "nvim",
    "plasma-workspace",
    "hg",
    "ccache",
    "sccache",
    "nix",
    "containers",
    "jj",
    "sway",
    "i3",
    "hypr",
    "openbox",
    "gh",
    "Code/User",
    "Code - Insiders/User",
    "VSCodium/User",
    "Cursor/User",
    "Windsurf/User",
    "zed",
    "helix",
    "kak",
    "emacs",
    "vim",
    "kitty",
    "alacritty",
    "ghostty",
    "foot",
    "wezterm",
    "zellij",
    "starship.toml",
    "lazygit",
    "bash",
    "ksh",
    "tcsh",
];

/// The same in the folder of data, with what other tools were told to trust.
const DATA: [&str; 10] = [
    "fish/vendor_conf.d",
    "bash-completion",
    "applications",
    "systemd",
    "dbus-1",
    "direnv",
    "nvim/site",
    "nvim/lazy",
    "zinit",
    "gh/extensions",
];

/// The same in the folder of state.
const STATE: [&str; 2] = ["mise/trusted-configs", "nvim/trust"];

/// What must not appear beside what shells read when they start: a file of this name would be read by the next gate.
const HELD: [&str; 8] = [
    ".gitconfig",
    ".npmrc",
    ".cargo/config.toml",
    ".yarnrc",
    ".yarnrc.yml",
    ".mavenrc",
    ".curlrc",
    ".pydistutils.cfg",
];

/// The same in folders that variables name.
const HELD_MOVED: [&str; 5] = ["config.toml", ".zshrc", ".zshenv", ".zprofile", ".zlogin"];

/// Folders that must not appear: what lies in them is read or run by the next shell, the next gate, or at the next login.
const HELD_FOLDERS: [&str; 2] = [".ssh", ".local/lib"];

/// The same in the folder of data.
const HELD_DATA: [&str; 2] = ["systemd", "dbus-1"];

/// The same where a tool is installed that reads them.
const HELD_FOLDERS_OF: [(&str, &str); 1] = [(".pip", "pip3")];

/// The same in the folder of configuration.
const HELD_CONFIGURED: [&str; 7] = ["dacapo", "git", "systemd", "autostart", "environment.d", "fish", "pip"];

const CREDENTIALS: [&str; 24] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".npmrc",
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".config/gh",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/hub",
    ".config/doctl",
    ".config/op",
    ".config/rclone",
    ".config/git/credentials",
    ".local/share/keyrings",
    ".password-store",
];

/// The system's programs and configuration, which only root could write anyway.
const SYSTEM: [&str; 18] = [
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/boot",
    "/var/spool/cron",
    "/var/spool/at",
    "/var/spool/anacron",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/pacman",
    "/var/lib/apk",
    "/var/lib/systemd",
    "/var/lib/cloud",
    "/run/udev",
    "/lib/modules",
];

/// The names that matter in these surroundings.
pub fn names(around: &Surroundings) -> Names {
    let mut names = Names::default();
    if let Some(home) = &around.home {
        let below = |all: &[&str]| all.iter().map(|name| home.join(name)).collect::<Vec<_>>();
        names.protected.extend(below(&STARTUP));
        names.protected.extend(below(&TOOLS));
        names.held.extend(below(&STARTUP));
        names.held.extend(below(&HELD));
        names.held_folders.extend(below(&HELD_FOLDERS));
        names.held_folders_of.extend(HELD_FOLDERS_OF.map(|(name, tool)| (home.join(name), tool)));
        names.startup.extend(below(&STARTUP));
        names.git_settings.push(home.join(".gitconfig"));
        names.credentials.extend(below(&CREDENTIALS));
    }
    if let Some(config) = &around.config {
        names.protected.extend(CONFIGURED.iter().map(|name| config.join(name)));
        names.held_folders.extend(HELD_CONFIGURED.iter().map(|name| config.join(name)));
        names.git_settings.push(config.join("git/config"));
    }
    if let Some(data) = &around.data {
        names.protected.extend(DATA.iter().map(|name| data.join(name)));
        names.held_folders.extend(HELD_DATA.iter().map(|name| data.join(name)));
        names.held_folders_of.push((data.join("direnv"), "direnv"));
    }
    if let Some(state) = &around.state {
        names.protected.extend(STATE.iter().map(|name| state.join(name)));
        names.held_folders_of.push((state.join("mise/trusted-configs"), "mise"));
    }
    for (folder, below) in &around.moved {
        names.protected.extend(below.iter().map(|name| folder.join(name)));
        names
            .held
            .extend(below.iter().filter(|name| HELD_MOVED.contains(name)).map(|name| folder.join(name)));
    }
    let is_of_shell = |name: &&&str| name.starts_with(".z");
    for (folder, below) in &around.moved {
        names.startup.extend(below.iter().filter(is_of_shell).map(|name| folder.join(name)));
    }
    names.startup.extend(around.startup.iter().cloned());
    names.git_settings.extend(around.git_settings.iter().cloned());
    names.protected.extend(around.named.iter().cloned());
    names.held.extend(around.named.iter().cloned());
    if around.is_root {
        names.protected.extend(SYSTEM.iter().map(PathBuf::from));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_lies_in_the_home_in_the_configuration_and_for_root_in_the_system() {
        let around = Surroundings {
            home: Some("/home/u".into()),
            config: Some("/c".into()),
            data: Some("/d".into()),
            state: Some("/s".into()),
            moved: vec![("/cargo".into(), &["config.toml", "bin"])],
            named: vec!["/my/gitconfig".into()],
            git_settings: vec!["/my/gitconfig".into()],
            startup: Vec::new(),
            is_root: false,
        };
        let found = names(&around);
        for path in [
            "/home/u/.bashrc",
            "/home/u/.cargo/config.toml",
            "/c/dacapo",
            "/cargo/bin",
            "/my/gitconfig",
            "/d/direnv",
            "/s/nvim/trust",
        ] {
            assert!(found.protected.contains(&path.into()), "{path}");
        }
        for path in ["/my/gitconfig", "/cargo/config.toml"] {
            assert!(found.held.contains(&path.into()), "{path}");
        }
        assert!(!found.held.contains(&"/cargo/bin".into()));
        assert!(!found.protected.contains(&"/etc".into()), "a user cannot write there");
        assert!(found.credentials.contains(&"/home/u/.ssh".into()));
        assert!(found.held.contains(&"/home/u/.npmrc".into()));
        let root = names(&Surroundings { is_root: true, ..Surroundings::default() });
        assert!(root.protected.contains(&"/etc".into()) && root.held.is_empty());
    }
}
