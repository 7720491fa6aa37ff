"""`python -m strudel` is the command line."""

from strudel.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
