"""What viewers know of a crew: the dashboard, `gandy top` and reports show it. It asks as any other client does."""
