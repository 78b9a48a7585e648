"""Methods the library's own are compared with. A new one is a file here and a line in :data:`REGISTRY`."""

from multimargin.baselines.binary_relevance import BinaryRelevance
from multimargin.baselines.boostexter import BoosTexter
from multimargin.baselines.category_ranking import CategoryRanking
from multimargin.baselines.classifier_chain import ClassifierChain
from multimargin.baselines.cutting_plane import CuttingPlaneM3L
from multimargin.baselines.group_sparse_log_linear import GroupSparseLogLinear
from multimargin.baselines.knn_labels import KNNLabels
from multimargin.baselines.label_powerset import LabelPowerset
from multimargin.baselines.lead import LEAD
from multimargin.baselines.least_squares_labels import LeastSquaresLabels
from multimargin.baselines.mlknn import MLkNN
from multimargin.baselines.mmoc import MMOC
from multimargin.baselines.output_kernel_least_squares import OutputKernelLeastSquares
from multimargin.baselines.plem import PLEM
from multimargin.baselines.plst import PLST
from multimargin.baselines.rakel import RAkEL
from multimargin.baselines.random_forest_labels import RandomForestLabels
from multimargin.baselines.rank_svm import RankSVM
from multimargin.estimators.predictor import MultilabelPredictor

__all__ = [
    "LEAD",
    "MMOC",
    "PLEM",
    "PLST",
    "REGISTRY",
    "BinaryRelevance",
    "BoosTexter",
    "CategoryRanking",
    "ClassifierChain",
    "CuttingPlaneM3L",
    "GroupSparseLogLinear",
    "KNNLabels",
    "LabelPowerset",
    "LeastSquaresLabels",
    "MLkNN",
    "OutputKernelLeastSquares",
    "RAkEL",
    "RandomForestLabels",
    "RankSVM",
]

REGISTRY: dict[str, type[MultilabelPredictor]] = {
    "binary-relevance": BinaryRelevance,
    "boostexter": BoosTexter,
    "category-ranking": CategoryRanking,
    "classifier-chain": ClassifierChain,
    "cutting-plane-m3l": CuttingPlaneM3L,
    "group-sparse-log-linear": GroupSparseLogLinear,
    "knn-labels": KNNLabels,
    "label-powerset": LabelPowerset,
    "lead": LEAD,
    "least-squares-labels": LeastSquaresLabels,
    "mlknn": MLkNN,
    "mmoc": MMOC,
    "output-kernel-least-squares": OutputKernelLeastSquares,
    "plem": PLEM,
    "plst": PLST,
    "rakel": RAkEL,
    "random-forest-labels": RandomForestLabels,
    "rank-svm": RankSVM,
}
"""The baselines by name."""
