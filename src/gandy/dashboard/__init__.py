"""The dashboard: a program that shows a crew in browsers, and to programs as JSON. It is a client of the crew."""
