"""Methods the library's own are compared with. A new one is a file here and a line below."""

from multimargin.baselines.output_kernel_least_squares import OutputKernelLeastSquares
from multimargin.baselines.rank_svm import RankSVM

__all__ = ["OutputKernelLeastSquares", "RankSVM"]
