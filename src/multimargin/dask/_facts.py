"""What all blocks agree on: one reduction over the blocks, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin.errors import InputError
from multimargin.estimators import LinearM3L
from multimargin.estimators.m3l.blocks import Block, BlockFacts, block_weights, describe_block, read_block
from multimargin.estimators.m3l.plans import Plan, make_plan

__all__ = ["Facts", "agreed", "block_facts", "is_recipe", "local_model"]


@dataclass(frozen=True)
class Facts:
    """What all blocks together are.

    Attributes
    ----------
    rows : ndarray of shape (n_blocks,)
        Rows of each block.
    n_bytes : int
        Of the features of all blocks.
    plan : Plan
        The problem that they share; without the prior, if that is a recipe.
    weights_of_cells : bool
        Whether cells have weights of their own.
    blocks : sequence of BlockFacts
    """

    rows: NDArray[np.int64]
    n_bytes: int
    plan: Plan
    weights_of_cells: bool
    blocks: Sequence[BlockFacts]

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""
        return self.plan.n_rows

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.plan.labels.n_labels


def block_facts(block: Block) -> tuple[BlockFacts, bool]:
    """Return what a block tells of itself, and whether its cells have weights; runs on a worker."""
    X, labels, columns = read_block(block)
    cells = block_weights(labels, block).cells
    return describe_block(replace(block, X=X, y=labels, columns=columns)), cells is not None


def is_recipe(prior: Any) -> bool:
    """Whether a prior is made from the labels of all rows."""
    return isinstance(prior, str) or callable(prior)


def agreed(model: LinearM3L, found: Sequence[tuple[BlockFacts, bool]]) -> Facts:
    """Put together what the blocks tell; raise InputError naming the block that does not agree with the others."""
    facts = [one for one, _ in found]
    filled = [one for one in facts if one.n_rows]
    plan = make_plan(local_model(model, None if is_recipe(model.prior) else model.prior), facts)
    plan = replace(plan, labels=replace(plan.labels, form=replace(plan.labels.form, negative=_negative(filled))))
    kinds = {cells for one, cells in found if one.n_rows}
    if len(kinds) > 1:
        msg = "sample_weight must have one weight per row in all blocks, or one per cell in all blocks; it differs."
        raise InputError(msg)
    size = plan.dtype.itemsize
    dense = [one.n_entries == one.n_rows * one.n_features for one in filled]
    n_bytes = sum(one.n_entries * (size if full else size + 4) for one, full in zip(filled, dense, strict=True))
    rows = np.array([one.n_rows for one in facts], dtype=np.int64)
    return Facts(rows, n_bytes, plan, kinds == {True}, filled)


def local_model(model: LinearM3L, prior: Any) -> LinearM3L:
    """Return an ordinary model with the parameters of one on a cluster, and a prior."""
    given = model.get_params(deep=False)
    return LinearM3L(**{**{name: given[name] for name in LinearM3L().get_params()}, "prior": prior})


def _negative(filled: Sequence[BlockFacts]) -> int:
    """Return the value of negative cells; a block without any leaves it open."""
    sure = [one for one in filled if one.form.kind != "column" and one.negative.any()]
    for one in sure[1:]:
        if one.form.negative != sure[0].form.negative:
            msg = (
                f"-1/1 and 0/1 must not be mixed: negative cells are {sure[0].form.negative} in {sure[0].name} and "
                f"{one.form.negative} in {one.name}. Replace -1 by 0, or by NaN if it means unknown."
            )
            raise InputError(msg)
    return sure[0].form.negative if sure else 0
