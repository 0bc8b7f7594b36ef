"""`gandy report`: one HTML file with everything about some jobs. `collect` asks for it; the rest is pure."""
