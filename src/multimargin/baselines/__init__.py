"""Methods the library's own are compared with. A new one is a file here and a line in :data:`REGISTRY`."""

from multimargin.baselines.boostexter import BoosTexter
from multimargin.baselines.category_ranking import CategoryRanking
from multimargin.baselines.cutting_plane import CuttingPlaneM3L
from multimargin.baselines.mlknn import MLkNN
from multimargin.baselines.output_kernel_least_squares import OutputKernelLeastSquares
from multimargin.baselines.rakel import RAkEL
from multimargin.baselines.rank_svm import RankSVM
from multimargin.estimators.predictor import MultilabelPredictor

__all__ = [
    "REGISTRY",
    "BoosTexter",
    "CategoryRanking",
    "CuttingPlaneM3L",
    "MLkNN",
    "OutputKernelLeastSquares",
    "RAkEL",
    "RankSVM",
]

REGISTRY: dict[str, type[MultilabelPredictor]] = {
    "boostexter": BoosTexter,
    "category-ranking": CategoryRanking,
    "cutting-plane-m3l": CuttingPlaneM3L,
    "mlknn": MLkNN,
    "output-kernel-least-squares": OutputKernelLeastSquares,
    "rakel": RAkEL,
    "rank-svm": RankSVM,
}
"""The baselines by name."""
