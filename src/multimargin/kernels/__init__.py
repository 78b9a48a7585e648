"""Kernels of the inputs: their values, what makes one unfit, Gram matrices and their factors."""

from .blas import one_blas_thread
from .checks import check_kernel, largest_value
from .diagonal import diagonal, mean_self_value, squared_lengths
from .factor import gram_factor
from .gram import BLOCK_BYTES, for_blocks, gram_matrix, gram_rows
from .scorer import kernel_scorer
from .values import KERNELS, POSITIVE_DATA, Kernel, check_not_negative, make_kernel, resolve_gamma

__all__ = [
    "BLOCK_BYTES",
    "KERNELS",
    "POSITIVE_DATA",
    "Kernel",
    "check_kernel",
    "check_not_negative",
    "diagonal",
    "for_blocks",
    "gram_factor",
    "gram_matrix",
    "gram_rows",
    "kernel_scorer",
    "largest_value",
    "make_kernel",
    "mean_self_value",
    "one_blas_thread",
    "resolve_gamma",
    "squared_lengths",
]
