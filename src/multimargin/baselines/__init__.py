"""Methods the papers compare with. A new one is a file here and a name below."""

from multimargin.baselines.mlknn import MLkNN
from multimargin.baselines.rakel import RAkEL

__all__ = ["MLkNN", "RAkEL"]
