"""What every command shares: options, exit codes, tables, progress and text for people."""
