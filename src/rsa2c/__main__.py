"""`python -m rsa2c` is `rsa2c`."""

import sys

from rsa2c.cli import main

sys.exit(main())
