"""`gandy top`: the crew in a terminal. Views are functions from what is known to lines; `program` waits."""
