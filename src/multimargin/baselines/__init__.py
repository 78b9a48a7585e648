"""Methods the library's own are compared with. A new one is a file here and a name below."""

from multimargin.baselines.mlknn import MLkNN
from multimargin.baselines.output_kernel_least_squares import OutputKernelLeastSquares
from multimargin.baselines.rakel import RAkEL
from multimargin.baselines.rank_svm import RankSVM

__all__ = ["MLkNN", "OutputKernelLeastSquares", "RAkEL", "RankSVM"]
