"""`python -m gammaprime`: the command line, where its script is not on the path."""

import sys

from gammaprime.cli import main

sys.exit(main())
