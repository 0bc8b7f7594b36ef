"""`gandy bus`: commands that look at an ensemble and send to it."""
