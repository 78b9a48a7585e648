r"""Kernels between label sets, and the atoms on which large-margin output kernels are trained.

A label kernel :math:`\kappa(s, s')` compares two sets of labels. To be of use in training it must be

* positive semidefinite and not negative, and
* **positive exactly when the two sets share a label**: training asks which sets lie within the labels of a row, and
  within those it lacks, and reads the answer off the zeros of the kernel.

The RBF kernel and polynomials with a "+1" are positive for every two sets; no set would lie within any other, the
training problem would be empty and every label predicted. They are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.errors import InputError
from multimargin.kernels import gram_factor

__all__ = [
    "LABEL_KERNELS",
    "Cosine",
    "ExpMinusOne",
    "FunctionKernel",
    "Jaccard",
    "LabelAtoms",
    "LabelKernel",
    "Polynomial",
    "check_label_kernel",
    "label_atoms",
    "single_labels",
]

BLOCK_CELLS = 4_000_000
MOST_ATOMS = 12_000  # for kernels that need a matrix between all of them

_POSITIVE_FOR_DISJOINT_SETS = (
    "is positive for label sets that share nothing. No set would then lie within the labels of any row, the training "
    "problem would be empty and every label predicted"
)


@dataclass(frozen=True)
class LabelKernel:
    """A kernel of two label sets that depends on their sizes and on the number of labels they share.

    A subclass provides ``of_counts``; whether it is admissible is checked on the training sets.
    """

    admissible: ClassVar[bool] = False
    """Whether that is known for all label sets."""

    def of_counts(self, common: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        """Values from the numbers of shared labels and the sizes of the two sets."""
        raise AssertionError

    def __call__(self, A: sp.csr_array, B: sp.csr_array) -> NDArray[np.float64]:
        """Matrix of the kernel between the rows of A and the rows of B, both 0/1."""
        common = np.asarray((A @ B.T).toarray(), dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.of_counts(common, _sizes(A)[:, None], _sizes(B)[None, :])
        if not np.all(np.isfinite(values)):
            msg = f"{self} overflows on sets of {int(common.max())} labels. Choose a kernel that grows less."
            raise InputError(msg)
        return values


@dataclass(frozen=True)
class Polynomial(LabelKernel):
    r""":math:`\kappa(s, s') = \sum_i w_i\, |s \cap s'|^i`.

    Parameters
    ----------
    weights : tuple of float
        :math:`w_1, \dots, w_k`, not negative, not all zero.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from multimargin.label_kernels import Polynomial
    >>> sets = sp.csr_array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> Polynomial((1.0, 1.0))(sets, sets)
    array([[6., 2., 0.],
           [2., 6., 2.],
           [0., 2., 2.]])
    """

    weights: tuple[float, ...] = (0.5, 0.5)
    admissible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.weights or not np.all(np.isfinite(self.weights)) or min(self.weights) < 0 or not any(self.weights):
            msg = (
                f"weights of the label kernel must be finite, not negative and not all zero; got {self.weights}. A "
                f"constant term is not among them: a kernel with one {_POSITIVE_FOR_DISJOINT_SETS}."
            )
            raise InputError(msg)

    def of_counts(self, common: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        """Values from the numbers of shared labels and the sizes of the two sets."""
        return np.asarray(sum(w * common ** (i + 1) for i, w in enumerate(self.weights)), dtype=np.float64)

    @property
    def pair_coefficients(self) -> tuple[float, float] | None:
        """``(c1, c2)`` if the kernel is ``c1 |s & s'| + c2 binom(|s & s'|, 2)``, None if its degree is above 2."""
        if any(self.weights[2:]):
            return None
        w1, w2 = (*self.weights, 0.0)[:2]
        return w1 + w2, 2 * w2

    def factors(self, sets: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array] | None:
        r"""Return sparse A and B with ``A B'`` the kernel between these sets; None above degree 2.

        A set s that holds most labels is all but a set z. The number of labels that two sets share is N = U + M, with M
        the number shared by the small sets, times -1 where one of two is all but its own, and U of rank 2; so N o N
        = 2 U o N - U o U + M o M, and M o M is a sum over the labels and the label pairs of small sets.
        """
        if self.pair_coefficients is None:
            return None
        w1, w2 = (*self.weights, 0.0)[:2]
        n_labels = sets.shape[1]
        most = _sizes(sets) > n_labels / 2
        small = _complemented(sets, most)
        size = np.where(most, -1.0, 1.0) * _sizes(small)
        left, right = (size + n_labels * most, 1.0 * most), (1.0 * most, size)  # U = left right'
        pairs = _label_pairs(small)
        A: list[Any] = [w1 * sets, w2 * small, 2 * w2 * pairs]
        B: list[Any] = [sets, small, pairs]
        for r in (0, 1):
            A.append(sp.diags_array(2 * w2 * left[r]) @ sets)
            B.append(sp.diags_array(right[r]) @ sets)
            for q in (0, 1):
                A.append(sp.csr_array((-w2 * left[r] * left[q])[:, None]))
                B.append(sp.csr_array((right[r] * right[q])[:, None]))
        return sp.csr_array(sp.hstack(A)), sp.csr_array(sp.hstack(B))


def _label_pairs(sets: sp.csr_array) -> sp.csr_array:
    """Return which pairs of labels each set has, of all that occur; sets of one size at a time."""
    n_labels = sets.shape[1]
    sizes = np.diff(sets.indptr)
    rows, keys = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for size in np.unique(sizes[sizes > 1]).tolist():
        these = np.flatnonzero(sizes == size)
        labels = np.sort(sets.indices[sets.indptr[these][:, None] + np.arange(size)], axis=1).astype(np.int64)
        first, second = np.triu_indices(size, 1)
        keys.append((labels[:, first] * n_labels + labels[:, second]).ravel())
        rows.append(np.repeat(these, len(first)))
    found, columns = np.unique(np.concatenate(keys), return_inverse=True)
    ones = np.ones(len(columns))
    return sp.csr_array((ones, (np.concatenate(rows), columns)), shape=(sets.shape[0], len(found)))


@dataclass(frozen=True)
class Cosine(LabelKernel):
    r"""Another kernel divided by the lengths, :math:`\kappa(s, s') / \sqrt{\kappa(s, s)\, \kappa(s', s')}`."""

    kernel: LabelKernel = field(default_factory=Polynomial)

    @property
    def admissible(self) -> bool:  # type: ignore[override]
        """Whether the kernel it is made of is."""
        return self.kernel.admissible

    def __post_init__(self) -> None:
        if isinstance(self.kernel, FunctionKernel) or not isinstance(self.kernel, LabelKernel):
            msg = f"Cosine divides a LabelKernel by its lengths; got {self.kernel!r}. Do it inside your function."
            raise InputError(msg)

    def of_counts(self, common: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        """Values from the numbers of shared labels and the sizes of the two sets."""
        lengths = self.kernel.of_counts(left, left, left) * self.kernel.of_counts(right, right, right)
        return np.asarray(self.kernel.of_counts(common, left, right) / np.sqrt(np.where(lengths > 0, lengths, 1.0)))


@dataclass(frozen=True)
class ExpMinusOne(LabelKernel):
    r""":math:`\kappa(s, s') = e^{\lambda |s \cap s'|} - 1`, a polynomial of every degree.

    Parameters
    ----------
    scale : float
        :math:`\lambda`. The sets of labels which rows lack are large: keep :math:`\lambda` times the number of labels
        small.
    """

    scale: float = 1.0
    admissible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            msg = f"scale of ExpMinusOne must be a positive number; got {self.scale}. With 0 or less no kernel is left."
            raise InputError(msg)

    def of_counts(self, common: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        """Values from the numbers of shared labels and the sizes of the two sets."""
        return np.asarray(np.expm1(self.scale * common))


@dataclass(frozen=True)
class Jaccard(LabelKernel):
    r""":math:`\kappa(s, s') = |s \cap s'| / |s \cup s'|`."""

    admissible: ClassVar[bool] = True

    def of_counts(self, common: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        """Values from the numbers of shared labels and the sizes of the two sets."""
        union = left + right - common
        return np.asarray(common / np.where(union > 0, union, 1.0))


@dataclass(frozen=True)
class FunctionKernel(LabelKernel):
    """A function of two 0/1 arrays; whether it is admissible is checked on the training sets."""

    function: Callable[[NDArray[Any], NDArray[Any]], Any]

    def __call__(self, A: sp.csr_array, B: sp.csr_array) -> NDArray[np.float64]:
        """Matrix of the kernel between the rows of A and the rows of B, both 0/1."""
        left, right = A.toarray().astype(np.float64), B.toarray().astype(np.float64)
        values = np.asarray(self.function(left, right), dtype=np.float64)
        if values.shape != (len(left), len(right)):
            msg = (
                f"A label_kernel function must return a matrix of shape {(len(left), len(right))}, a value for each "
                f"pair of label sets; got shape {values.shape}."
            )
            raise InputError(msg)
        if not np.all(np.isfinite(values)):
            msg = "A label_kernel function must return finite numbers; some are not. Check it on small and large sets."
            raise InputError(msg)
        return values


LABEL_KERNELS = ("poly", "cosine", "exp", "jaccard")
"""Names of label kernels; a :class:`LabelKernel` or a function of two 0/1 arrays is one too."""


def check_label_kernel(kernel: Any, degree: int = 2, weights: Sequence[float] | None = None) -> LabelKernel:
    """Read a label kernel from its name or from a function.

    Parameters
    ----------
    kernel : {"poly", "cosine", "exp", "jaccard"}, LabelKernel or callable
        ``"cosine"`` is the polynomial kernel divided by the lengths.
    degree : int
        Degree of the polynomial.
    weights : sequence of float, optional
        Weights of its powers; by default all equal, with sum 1.

    Returns
    -------
    LabelKernel
    """
    if isinstance(kernel, LabelKernel):
        return kernel
    if callable(kernel):
        return FunctionKernel(kernel)
    if kernel in ("rbf", "gaussian", "laplacian"):
        msg = f"label_kernel={kernel!r} {_POSITIVE_FOR_DISJOINT_SETS}. Use one of {', '.join(LABEL_KERNELS)}."
        raise InputError(msg)
    if kernel not in LABEL_KERNELS:
        msg = f"label_kernel must be one of {', '.join(LABEL_KERNELS)}, a LabelKernel or a function; got {kernel!r}."
        raise InputError(msg)
    if kernel == "exp":
        return ExpMinusOne()
    if kernel == "jaccard":
        return Jaccard()
    polynomial = Polynomial(_check_weights(degree, weights))
    return Cosine(polynomial) if kernel == "cosine" else polynomial


def _check_weights(degree: int, weights: Sequence[float] | None) -> tuple[float, ...]:
    if weights is None:
        return (1.0 / degree,) * degree
    values = tuple(float(w) for w in weights)
    if len(values) != degree:
        msg = (
            f"label_weights has {len(values)} entries for label_degree={degree}. Give one weight for each power "
            f"1, ..., {degree}."
        )
        raise InputError(msg)
    return values


@dataclass(frozen=True, eq=False)
class LabelAtoms:
    r"""Label sets :math:`s_j` with their vectors :math:`\psi_j = \phi(s_j) / a_j`.

    Attributes
    ----------
    kernel : LabelKernel
    sets : csr_array of shape (n_atoms, n_labels)
        0/1; the single labels come first.
    multiplicity : ndarray of shape (n_atoms,)
        How often the set occurs among the single labels, the label sets of the rows and the sets they lack.
    a : ndarray of shape (n_atoms,)
        :math:`a_j = \sum_k \kappa(s_j, s_k) m_k / (t + 1)`, on whose scale margins are measured.
    """

    kernel: LabelKernel
    sets: sp.csr_array
    multiplicity: NDArray[np.float64]
    a: NDArray[np.float64]
    unit: bool = False

    def __len__(self) -> int:
        return int(self.sets.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.sets.shape[1])

    @cached_property
    def normalized_gram(self) -> NDArray[np.float64]:
        r"""Matrix of :math:`\kappa(s_j, s_k) / (a_j a_k)`."""
        _check_number(len(self))
        return np.asarray(self.kernel(self.sets, self.sets) / np.outer(self.a, self.a))

    def coupling(self) -> NDArray[np.float64]:
        r"""Matrix R of :math:`\kappa(s_j, s_k) / (a_j a_k) + 1`."""
        return self.normalized_gram + 1.0

    def label_scores(self) -> sp.csr_array:
        r"""Matrix of :math:`\kappa(s_j, 1_l) / a_j`, zero where the set lacks the label."""
        values = self.sets.astype(np.float64)
        units = sp.csr_array(sp.identity(self.n_labels, format="csr"))
        if isinstance(self.kernel, Polynomial):
            values.data[:] = sum(self.kernel.weights)
        else:
            for rows in _blocks(len(self), self.n_labels):
                part = slice(int(self.sets.indptr[rows.start]), int(self.sets.indptr[rows.stop]))
                dense = self.kernel(self.sets[rows], units)
                row = np.repeat(np.arange(len(dense)), np.diff(self.sets.indptr[rows.start : rows.stop + 1]))
                values.data[part] = dense[row, self.sets.indices[part]]
        return sp.csr_array(sp.diags_array(1.0 / self.a) @ values)

    def features(self) -> _core.SetFeatures | NDArray[np.float64] | None:
        """Vectors of the atoms for the native core (core/separation/label_features.hpp)."""
        if self.unit:
            return None
        pair = self.kernel.pair_coefficients if isinstance(self.kernel, Polynomial) else None
        if pair is None:
            return gram_factor(self.normalized_gram, "The matrix of the label kernel")
        c1, c2 = pair
        complement = _sizes(self.sets) > self.n_labels / 2
        small = _complemented(self.sets, complement)
        table, n_pairs = None, 0
        if c2 > 0:
            together = sp.triu(small.T @ small, k=1, format="coo")
            n_pairs = together.nnz
            table = np.full((self.n_labels, self.n_labels), -1, dtype=np.int32)
            table[together.row, together.col] = table[together.col, together.row] = np.arange(n_pairs)
        return _core.SetFeatures(
            members=_core.Cells(small.indptr.astype(np.int64), small.indices.astype(np.int32), self.n_labels),
            complement=complement.astype(np.uint8),
            scale=1.0 / self.a,
            pair_rows=table,
            n_pairs=n_pairs,
            c1=c1,
            c2=c2,
        )


def single_labels(n_labels: int) -> LabelAtoms:
    """Atoms of calibrated separation ranking: the labels themselves, with vectors at right angles."""
    sets = sp.csr_array(sp.identity(n_labels, format="csr"))
    ones = np.ones(n_labels)
    return LabelAtoms(Polynomial((1.0,)), sets, ones, ones, unit=True)


def label_atoms(
    positives: sp.csr_array, negatives: sp.csr_array, kernel: LabelKernel, weight: NDArray[np.float64] | None = None
) -> LabelAtoms:
    """Atoms of a training set: every label, every label set of a row, and every set of labels a row lacks.

    Parameters
    ----------
    positives, negatives : csr_array of shape (n_samples, n_labels)
        Labels which rows have, and labels they are known to lack.
    kernel : LabelKernel
    weight : ndarray of shape (n_samples,), optional
        Weights of the rows; a row of weight 2 counts as two.

    Returns
    -------
    LabelAtoms

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from multimargin.label_kernels import Polynomial, label_atoms
    >>> Y = sp.csr_array([[1, 1, 0], [0, 0, 1], [1, 0, 1]])
    >>> atoms = label_atoms(Y, sp.csr_array(1 - Y.toarray()), Polynomial((1.0, 1.0)))
    >>> atoms.sets.toarray().astype(int).tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]]
    >>> atoms.multiplicity, atoms.a
    (array([1., 2., 3., 2., 1.]), array([2. , 2. , 2. , 5. , 4.5]))
    """
    n_rows, n_labels = positives.shape
    weight = np.ones(n_rows) if weight is None else weight
    both = sp.csr_array(sp.vstack([positives, negatives], format="csr")).astype(np.float64)
    both.sort_indices()
    sizes, counts = _sizes(both), np.concatenate([weight, weight])
    multiplicity = np.ones(n_labels)
    single = sizes == 1
    np.add.at(multiplicity, both[single].indices, counts[single])
    larger = both[sizes > 1]
    bits = pack_sets(larger)
    _, first, group = np.unique(_as_keys(bits), return_index=True, return_inverse=True)
    order = np.argsort(first)
    units = sp.csr_array(sp.identity(n_labels, format="csr"))
    sets = sp.csr_array(sp.vstack([units, larger[np.sort(first)]], format="csr"))
    if not kernel.admissible:
        _check_number(sets.shape[0])
        _check_admissible(kernel(sets, sets), sets)
    larger_counts = np.bincount(group.ravel(), weights=counts[sizes > 1], minlength=len(first))[order]
    multiplicity = np.concatenate([multiplicity, larger_counts])
    a = _mass(sets, multiplicity, kernel) / (float(weight.sum()) + 1.0)
    return LabelAtoms(kernel, sets, multiplicity, a)


def pack_sets(sets: sp.csr_array) -> NDArray[np.uint64]:
    """Pack sets into bits, 64 labels to a word."""
    n, n_labels = sets.shape
    words = max(1, -(-n_labels // 64))
    bits = np.zeros((n, words * 8), dtype=np.uint8)
    for rows in _blocks(n, n_labels):
        packed = np.packbits(sets[rows].toarray() != 0, axis=1, bitorder="little")
        bits[rows, : packed.shape[1]] = packed
    return bits.view("<u8").astype(np.uint64, copy=False)


def _as_keys(bits: NDArray[np.uint64]) -> NDArray[Any]:
    return np.ascontiguousarray(bits).view(np.dtype((np.void, bits.shape[1] * 8))).ravel()


def _mass(sets: sp.csr_array, multiplicity: NDArray[np.float64], kernel: LabelKernel) -> NDArray[np.float64]:
    """For each set, the sum of its kernel values with all sets, duplicates counted."""
    pair = kernel.pair_coefficients if isinstance(kernel, Polynomial) else None
    mass = np.empty(sets.shape[0])
    if pair is not None:
        # c1 |s & s'| + c2 binom(|s & s'|, 2) = (c1 - c2 / 2) s.s' + c2 / 2 (s.s')^2, summed over s'
        weighted = sets.T @ sp.diags_array(multiplicity) @ sets
        together = np.asarray(weighted.toarray())
        for rows in _blocks(sets.shape[0], sets.shape[1]):
            s = sets[rows].toarray()
            mass[rows] = (pair[0] - pair[1] / 2) * (s @ np.diag(together)) + pair[1] / 2 * np.einsum(
                "ij,ij->i", s @ together, s
            )
        return mass
    for rows in _blocks(sets.shape[0], sets.shape[0]):
        mass[rows] = kernel(sets[rows], sets) @ multiplicity
    return mass


def _complemented(sets: sp.csr_array, complement: NDArray[np.bool_]) -> sp.csr_array:
    parts = [
        sp.csr_array((sets[rows].toarray() != 0) ^ complement[rows, None])
        for rows in _blocks(sets.shape[0], sets.shape[1])
    ]
    return sp.csr_array(sp.vstack(parts, format="csr")).astype(np.float64)


def _check_number(n_atoms: int) -> None:
    if n_atoms > MOST_ATOMS:
        msg = (
            f"This label kernel needs a matrix between all {n_atoms} distinct label sets ({n_atoms**2 * 8 / 2**30:.1f} "
            f"GiB); at most {MOST_ATOMS} are allowed. Use label_kernel='poly' with label_degree 1 or 2, or fewer rows."
        )
        raise InputError(msg)


def _check_admissible(Q: NDArray[np.float64], sets: sp.csr_array) -> None:
    meets = (sets @ sets.T).toarray() > 0
    if np.any(Q < 0) or np.any(Q[meets] <= 0):
        msg = (
            "label_kernel must be positive for two label sets that share a label, and never negative; its smallest "
            f"value there is {min(float(Q.min()), float(Q[meets].min())):.3g}."
        )
        raise InputError(msg)
    if np.any(Q[~meets] > 0):
        msg = f"label_kernel {_POSITIVE_FOR_DISJOINT_SETS}. Subtract the constant, or use one of " + ", ".join(
            LABEL_KERNELS
        )
        raise InputError(msg + ".")
    gram_factor(Q, "The matrix of label_kernel")


def _sizes(sets: sp.csr_array) -> NDArray[np.float64]:
    return np.asarray(np.diff(sets.indptr), dtype=np.float64)


def _blocks(n_rows: int, n_columns: int) -> list[slice]:
    size = max(1, BLOCK_CELLS // max(1, n_columns))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)] or [slice(0, 0)]
