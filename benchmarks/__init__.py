"""Speed and memory against the peers, as ratios of one run: `python -m benchmarks`.

A file per theme, a function per row of the table; `timing` measures in alternation,
`results` judges and prints, `scales` holds all sizes and bounds.
"""
