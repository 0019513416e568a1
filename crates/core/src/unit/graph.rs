//! What follows from dependencies: ready tasks, the order of units, circles.
