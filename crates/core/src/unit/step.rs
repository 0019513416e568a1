//! What a unit needs next, judged from its tasks, its loops and what became of them.
