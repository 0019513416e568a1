//! Units × slots, as a pure machine: which unit is worked on, which is merged, which can never begin.
