//! All that is wrong with the files of units, at once and each with its place.
