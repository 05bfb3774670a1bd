"""`python -m dperm` is the command `dperm`."""

from dperm.cli.entry import run

if __name__ == "__main__":
    run()
