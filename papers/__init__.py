"""The tables and figures of the papers, run again with the public interface of multimargin: ``python -m papers``.

A folder per paper: its published values and settings (``*.toml``, one per table), its experiments, and what came out.
A table names its experiment, a function of the folder, as ``module.function``.
"""
