"""Splits of multi-label data: stratified by labels, or by category, and how even they are."""

from .balance import FoldBalance, fold_balance
from .categories import CategoryKFold
from .stratification import MultilabelStratifiedKFold, MultilabelStratifiedShuffleSplit, train_test_split

__all__ = [
    "CategoryKFold",
    "FoldBalance",
    "MultilabelStratifiedKFold",
    "MultilabelStratifiedShuffleSplit",
    "fold_balance",
    "train_test_split",
]
