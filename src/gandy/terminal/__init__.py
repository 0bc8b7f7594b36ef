"""What commands share: options, exit codes, tables, progress, and text for users."""
