"""The same models on a Dask cluster, for rows that do not fit one machine, with the same certificate."""

try:
    import dask
    import distributed  # noqa: F401
except ImportError as error:
    msg = f'multimargin.dask needs dask and distributed ({error.name} is missing): pip install "multimargin[dask]"'
    raise ImportError(msg, name=error.name) from error

from multimargin.dask._estimators import DaskLinearM3L

__all__ = ["DaskLinearM3L"]

del dask
