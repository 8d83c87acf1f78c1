"""The command `salcli`, also `python -m salcli`."""

import os
import signal


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported ends the process without a traceback."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Of pyarrow, which reads it when it is imported. Its other allocators keep several times what is in use.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from salcli.cli.app import main as run

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
