"""Imported by every Python process of a sanitizer run: multimargin is the one on PYTHONPATH, not the editable one."""

import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
