"""`python -m galley` is the `galley` command."""

from galley.api.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
