//! What happens to tasks, told from the events of the loops that work on them: each exactly once.
