//! What an agent is told about the tasks of a unit, about red checks, about a conflict.
