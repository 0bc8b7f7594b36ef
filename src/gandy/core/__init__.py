"""What a foreman knows and how it decides. No I/O, no clock, no chance: time comes in, effects go out."""
