"""What a foreman knows and how it decides. No I/O, no clock, no randomness: time comes in, effects go out."""
