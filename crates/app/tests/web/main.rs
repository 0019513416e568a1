//! `dacapo web` and `dacapo serve` from outside: the pages in a browser.

mod browser;
