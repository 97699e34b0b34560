"""`python -m keyplan` is `keyplan`."""

from keyplan.cli.main import main

main()
