import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.errors import InputError
from multimargin.label_kernels import (
    Cosine,
    ExpMinusOne,
    FunctionKernel,
    Jaccard,
    LabelKernel,
    Polynomial,
    check_label_kernel,
    label_atoms,
    pack_sets,
    single_labels,
)

KERNELS = [
    Polynomial((1.0,)),
    Polynomial((1.0, 0.5)),
    Polynomial((1.0, 1.0, 1.0)),
    Cosine(),
    ExpMinusOne(0.3),
    Jaccard(),
]


def random_labels(rng, n=12, n_labels=5, share=0.4):
    """Label sets with an empty, a full and a duplicate row among them."""
    Y = (rng.random((n, n_labels)) < share).astype(int)
    Y[0], Y[1], Y[2] = 0, 1, Y[3]
    return sp.csr_array(Y), sp.csr_array(1 - Y)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_are_admissible(kernel):
    """Positive semidefinite, not negative, and positive exactly for sets that share a label."""
    sets = sp.csr_array(np.array(list(itertools.product([0, 1], repeat=5))[1:]))
    Q = kernel(sets, sets)
    np.testing.assert_allclose(Q, Q.T)
    assert np.linalg.eigvalsh(Q).min() > -1e-9 * np.abs(Q).max()
    np.testing.assert_array_equal(Q > 0, (sets @ sets.T).toarray() > 0)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.5), (1.0, 1.0, 1.0), (0.0, 2.0, 0.5)])
def test_polynomials_have_a_feature_per_subset(rng, weights):
    """phi phi' = Q and phi v = a, with c_j^2 = j! sum_i w_i S2(i, j) for subsets of j labels."""
    second_kind = {(1, 1): 1, (2, 1): 1, (2, 2): 1, (3, 1): 1, (3, 2): 3, (3, 3): 1}
    positives, negatives = random_labels(rng)
    kernel = Polynomial(weights)
    atoms = label_atoms(positives, negatives, kernel)

    def phi(sets):
        columns = []
        for size in range(1, len(weights) + 1):
            c = math.sqrt(
                math.factorial(size) * sum(w * second_kind.get((i + 1, size), 0) for i, w in enumerate(weights))
            )
            columns += [c * sets[:, list(A)].prod(axis=1) for A in itertools.combinations(range(5), size)]
        return np.array(columns).T

    S = atoms.sets.toarray()
    everything = np.vstack([np.eye(5), positives.toarray(), negatives.toarray()])
    v = phi(everything).sum(axis=0) / (12 + 1)
    np.testing.assert_allclose(phi(S) @ phi(S).T, kernel(atoms.sets, atoms.sets), atol=1e-12)
    np.testing.assert_allclose(phi(S) @ v, atoms.a)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_atoms_merge_duplicates_and_keep_their_number(rng, kernel):
    positives, negatives = random_labels(rng)
    atoms = label_atoms(positives, negatives, kernel)
    everything = np.vstack([np.eye(5), positives.toarray(), negatives.toarray()])
    everything = sp.csr_array(everything[everything.sum(axis=1) > 0])
    assert atoms.multiplicity.sum() == everything.shape[0]
    assert len(np.unique(atoms.sets.toarray(), axis=0)) == len(atoms)
    np.testing.assert_array_equal(atoms.sets[:5].toarray(), np.eye(5))
    np.testing.assert_allclose(atoms.a, kernel(atoms.sets, everything).sum(axis=1) / 13)
    R = atoms.coupling()
    disjoint = (atoms.sets @ atoms.sets.T).toarray() == 0
    np.testing.assert_allclose(R[disjoint], 1.0)
    scores = kernel(atoms.sets, sp.csr_array(np.eye(5))) / atoms.a[:, None]
    np.testing.assert_allclose(atoms.label_scores().toarray(), scores, atol=1e-15)


def test_weights_of_rows_count_as_copies(rng):
    positives, negatives = random_labels(rng)
    twice = np.r_[np.arange(12), 0, 5]
    a = label_atoms(positives[twice], negatives[twice], Polynomial((1.0, 1.0)))
    weight = np.ones(12)
    weight[[0, 5]] = 2.0
    b = label_atoms(positives, negatives, Polynomial((1.0, 1.0)), weight)
    np.testing.assert_allclose(a.a, b.a)
    np.testing.assert_allclose(a.multiplicity, b.multiplicity)


def test_single_labels():
    np.testing.assert_array_equal(single_labels(3).coupling(), np.eye(3) + 1)


def test_packed_sets_have_a_bit_per_label(rng):
    Y = rng.random((7, 130)) < 0.3
    bits = pack_sets(sp.csr_array(Y))
    assert bits.shape == (7, 3)
    for label in range(130):
        np.testing.assert_array_equal(bits[:, label // 64] >> np.uint64(label % 64) & np.uint64(1), Y[:, label])


def test_names():
    assert check_label_kernel("poly") == Polynomial((0.5, 0.5))
    assert check_label_kernel("poly", 3, [1, 0, 2]) == Polynomial((1.0, 0.0, 2.0))
    assert check_label_kernel("cosine", 1) == Cosine(Polynomial((1.0,)))
    assert check_label_kernel("exp") == ExpMinusOne()
    assert check_label_kernel(Jaccard()) == check_label_kernel("jaccard")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rbf",), "positive for label sets that share nothing"),
        (("tree",), "must be one of poly, cosine, exp, jaccard"),
        (("poly", 2, [1.0]), "1 entries for label_degree=2"),
        (("poly", 2, [1.0, -1.0]), "not negative"),
        (("poly", 2, [0.0, 0.0]), "not all zero"),
        (("cosine", 1, [np.nan]), "finite"),
    ],
)
def test_kernels_that_cannot_work_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        check_label_kernel(*arguments)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda A, B: (A @ B.T + 1) ** 2, "share nothing"),
        (lambda A, B: A @ B.T - 1, "never negative"),
        (lambda A, B: np.where(A @ B.T > 0, 1.0, 0.0) * 2 - np.eye(len(A)), "positive semidefinite"),
        (lambda A, B: np.ones(3), "shape"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "finite"),
    ],
)
def test_functions_are_checked_on_the_training_sets(rng, function, words):
    with pytest.raises(InputError, match=words):
        label_atoms(*random_labels(rng), FunctionKernel(function))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Polynomial((1.0, -1.0)), "not negative"),
        (lambda: Polynomial(()), "not all zero"),
        (lambda: ExpMinusOne(0.0), "positive number"),
        (lambda: Cosine(FunctionKernel(np.dot)), "inside your function"),
    ],
)
def test_kernels_made_by_hand_are_checked_too(make, words):
    with pytest.raises(InputError, match=words):
        make()


class Shifted(LabelKernel):
    def of_counts(self, common, left, right):
        return (common + 1.0) ** 2


class Squared(LabelKernel):
    def of_counts(self, common, left, right):
        return common**2


def test_classes_of_kernels_are_checked_on_the_training_sets(rng):
    labels = random_labels(rng)
    for kernel in (Shifted(), Cosine(Shifted())):
        with pytest.raises(InputError, match="share nothing"):
            label_atoms(*labels, kernel)
    np.testing.assert_allclose(label_atoms(*labels, Squared()).a, label_atoms(*labels, Polynomial((0.0, 1.0))).a)


def test_a_function_may_be_a_kernel(rng):
    labels = random_labels(rng)
    ours = label_atoms(*labels, FunctionKernel(lambda A, B: A @ B.T + (A @ B.T) ** 2))
    np.testing.assert_allclose(ours.coupling(), label_atoms(*labels, Polynomial((1.0, 1.0))).coupling())


def test_overflow_is_reported():
    many = sp.csr_array(np.ones((2, 1000)))
    with pytest.raises(InputError, match="overflows on sets of 1000 labels"):
        ExpMinusOne()(many, many)


@pytest.mark.parametrize("weights", [(1.0,), (0.3, 0.7), (0.0, 1.0)])
@pytest.mark.parametrize("n_labels", [1, 2, 9])
def test_factors_of_a_polynomial_are_the_kernel(rng, weights, n_labels):
    sets = sp.csr_array((rng.random((40, n_labels)) < rng.random((40, 1))).astype(float))
    kernel = Polynomial(weights)
    A, B = kernel.factors(sets)
    np.testing.assert_allclose((A @ B.T).toarray(), kernel(sets, sets), atol=1e-12)
    assert Polynomial((1.0, 1.0, 1.0)).factors(sets) is None
