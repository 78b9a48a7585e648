"""``python -m multimargin.cli``."""

import sys

from multimargin.cli import main

sys.exit(main())
