"""Priors that are made inside ``fit``, from the labels of its rows alone."""

from __future__ import annotations

import difflib
from typing import Any

from multimargin.errors import InputError

from ._builders import from_labels

__all__ = ["RECIPES", "made_prior"]

RECIPES = {"labels": from_labels}
"""Recipes by name: functions of Y."""


def made_prior(prior: Any, Y: Any) -> Any:
    """Return the prior that a recipe makes of training labels; what is no recipe is returned as it is.

    Parameters
    ----------
    prior : str, callable, or anything that is a prior already
        ``"labels"`` is :func:`from_labels`; a function is given Y.
    Y : labels in any form

    Returns
    -------
    None, array, DataFrame or LowRankPrior

    Examples
    --------
    >>> from multimargin.priors import made_prior
    >>> made_prior("labels", [[1, 1], [0, 0], [1, 1], [0, 0]])
    array([[1., 1.],
           [1., 1.]])
    """
    if isinstance(prior, str):
        if prior not in RECIPES:
            close = difflib.get_close_matches(prior, RECIPES, n=1, cutoff=0.5)
            hint = f"Did you mean {close[0]!r}?" if close else "Use prior='labels', or a function of Y."
            msg = f"prior must be a matrix, a LowRankPrior, a function, or the name of a recipe; got {prior!r}. {hint}"
            raise InputError(msg)
        return RECIPES[prior](Y)
    if not callable(prior):
        return prior
    made = prior(Y)
    if made is None or isinstance(made, str) or callable(made):
        name = getattr(prior, "__name__", type(prior).__name__)
        msg = f"A prior that is a function must return a matrix or a LowRankPrior; {name} returned {made!r}."
        raise InputError(msg)
    return made
