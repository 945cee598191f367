"""The paper's experiments: which runs each has, and what its table and figure are.

How a run is trained, and how a table is made, is the business of `sweep` and `report`.
"""
