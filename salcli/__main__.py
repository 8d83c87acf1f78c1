"""The command `salcli`, also `python -m salcli`."""

import signal


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported ends the process without a traceback."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from salcli.cli.app import main as run

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
