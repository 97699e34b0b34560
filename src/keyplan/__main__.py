"""`python -m keyplan` is `keyplan`. Ctrl-C is no traceback even while the command line is being imported."""

import sys


def main() -> None:
    """Runs the command line."""
    try:
        from keyplan.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell says it of a process that was interrupted
    run()


if __name__ == "__main__":
    main()
