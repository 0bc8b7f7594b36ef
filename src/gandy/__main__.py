"""`python -m gandy` is the command `gandy`."""

from gandy.cli.main import main

main()
