"""`python -m keyplan` is `keyplan`. Ctrl-C is no traceback even while the command line is being imported."""

import gc
import os
import sys


def main() -> None:
    """Runs the command line."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # It was closed: what is opened next, a database perhaps, would get its number, and what libraries print.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r", encoding="utf-8"))
    # The solver brings numpy, whose threads for large matrices would be started, and wait busily, for nothing.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # whoever ignores it goes on to
        # An interrupt that comes while something is collected or called back would be printed, and forgotten.
        signal.signal(signal.SIGINT, _stopped)
    try:
        from keyplan.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell says it of a process that was interrupted
    if signal.getsignal(signal.SIGINT) is _stopped:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "design" in sys.argv[1:2]:
        gc.disable()  # a design is found, and the process over, before there is garbage worth looking for
    try:
        run()
    finally:
        gc.freeze()  # what is left ends with the process, and need not be looked through before


def _stopped(*_: object) -> None:
    """Ends the process at once: nothing has begun yet that could be left half done."""
    os.write(2, b"keyplan: interrupted; nothing was done\n")
    os._exit(130)


if __name__ == "__main__":
    main()
