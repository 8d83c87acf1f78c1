"""`python -m salcli`."""

from salcli.cli.app import main

if __name__ == "__main__":
    main()
