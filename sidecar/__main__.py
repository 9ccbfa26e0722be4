"""`python -m sidecar` is `vault-sidecar`."""

import sys

from sidecar.cli.main import main

if __name__ == "__main__":  # a child process that imports the main module must not run it
    sys.exit(main())
